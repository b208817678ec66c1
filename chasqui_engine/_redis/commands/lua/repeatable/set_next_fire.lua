-- Gives a repeatable spec another next fire, unless it has fired or was replaced since that was planned.
-- KEYS  1 repeat
-- ARGV  1 spec key; 2 next fire time in ms; 3 the fire time that was found before
-- Reply 1 if it is set
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[3] then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
