-- Stores a repeatable spec and the time it fires next, unless it has fired or was replaced since that was planned.
-- KEYS  1 repeat; 2 the spec's hash
-- ARGV  1 spec key; 2 spec; 3 next fire time in ms; 4 the fire time that was found before ('' = none)
-- Reply 1 if it is stored
if (redis.call('ZSCORE', KEYS[1], ARGV[1]) or '') ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], 'spec', ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
