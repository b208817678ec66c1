-- Sets the limits of a queue in place of those that it has; without any it is not limited.
-- KEYS  1 limits; 2 limiter
-- ARGV  name and value of each: rate_max, rate_ms, concurrency
-- Reply 1 if there was one before
local had = redis.call('DEL', KEYS[1])
if #ARGV == 0 then redis.call('DEL', KEYS[2]) else redis.call('HSET', KEYS[1], unpack(ARGV)) end
return had
