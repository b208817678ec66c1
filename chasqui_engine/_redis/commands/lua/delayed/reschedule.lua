-- Gives a delayed job another time.
-- KEYS  1 delayed; 2 its "taken" key; 3 its index key
-- ARGV  1 member; 2 new time in ms; 3 seconds an id stays taken after its job was due
-- Reply 1 if it was still delayed
local now = redis.call('TIME')
local delay = math.max(0, tonumber(ARGV[2]) - (now[1] * 1000 + math.floor(now[2] / 1000)))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], 'XX', ARGV[2], ARGV[1])
-- An id of its own stays taken, and found, until the job is due.
for i = 2, 3 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('EXPIRE', KEYS[i], math.ceil(delay / 1000) + ARGV[3]) end
end
return 1
