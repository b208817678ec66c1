-- Stores a repeatable spec and the time it fires next.
-- KEYS  1 repeat; 2 the spec's hash
-- ARGV  1 spec key; 2 spec; 3 next fire time in ms
redis.call('HSET', KEYS[2], 'spec', ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
