-- Gives a leader's lock back, if it is still the holder's.
-- KEYS  1 lock
-- ARGV  1 holder
-- Reply 1 if it was
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
