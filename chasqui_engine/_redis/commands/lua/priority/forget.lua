-- includes: put delayed_member priorities
-- Forgets the priorities of jobs that have left the delayed set.
-- KEYS  1 delayed; 2 prio; 3 prio:jobs
-- ARGV  the id of each job
-- Reply 0
for _, job_id in ipairs(ARGV) do
  local member = redis.call('HGET', KEYS[3], job_id)
  if not member or not redis.call('ZSCORE', KEYS[1], member) then unstage(KEYS[2], KEYS[3], job_id) end
end
return 0
