-- Removes a repeatable spec.
-- KEYS  1 repeat; 2 the spec's hash
-- ARGV  1 spec key
-- Reply 1 if there was one
local listed = redis.call('ZREM', KEYS[1], ARGV[1])
local stored = redis.call('DEL', KEYS[2])
return (listed == 1 or stored == 1) and 1 or 0
