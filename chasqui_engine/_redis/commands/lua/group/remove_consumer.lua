-- Removes a consumer that holds nothing; of one that still holds something, replies what.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; 3 how many ids to reply at most
-- Reply the entry ids it still holds; empty when it is gone
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[3], ARGV[2])
if pending.err then return {} end
local ids = {}
for i = 1, #pending do ids[i] = pending[i][1] end
if #ids == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return ids
