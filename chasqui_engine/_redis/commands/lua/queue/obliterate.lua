-- includes: delivered
-- Deletes everything that a queue holds, all at once; the server frees the memory later.
-- KEYS  1 stream; 2… the other keys to delete
-- ARGV  1 '1' to delete also what runs
-- Reply the number of keys deleted; or, where jobs run, minus their number
local running = 0
visit_groups(KEYS[1], function(facts) running = running + facts['pending'] end)
-- An entry that was deleted while in flight is still pending.
running = math.min(running, redis.call('XLEN', KEYS[1]))
if running > 0 and ARGV[1] ~= '1' then return -running end
return redis.call('UNLINK', unpack(KEYS))
