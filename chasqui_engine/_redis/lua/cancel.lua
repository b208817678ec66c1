-- Takes a delayed job with an id of its own off the delayed set, and frees the id.
-- KEYS  1 delayed; 2 the job's index key; 3 its "taken" key
-- Reply 1 if it was there; 0 if it was not; -1 if there is no index to look it up by
local member = redis.call('GET', KEYS[2])
if not member then return -1 end
redis.call('DEL', KEYS[2])
if redis.call('ZREM', KEYS[1], member) == 0 then return 0 end
redis.call('DEL', KEYS[3])
return 1
