-- includes: put delayed_member priorities
-- Takes jobs with a priority off the delayed set, and frees their ids.
-- KEYS  1 delayed; 2 prio; 3 prio:jobs; then per job: its index key, its "taken" key
-- ARGV  the id of each job
-- Reply per job: 1 if it was taken off; 0 if it has no priority, or is not there any more
local reply = {}
for n, job_id in ipairs(ARGV) do
  local member = redis.call('HGET', KEYS[3], job_id)
  reply[n] = member and redis.call('ZREM', KEYS[1], member) or 0
  if member then unstage(KEYS[2], KEYS[3], job_id) end
  if reply[n] == 1 then redis.call('DEL', KEYS[2 + 2 * n], KEYS[3 + 2 * n]) end
end
return reply
