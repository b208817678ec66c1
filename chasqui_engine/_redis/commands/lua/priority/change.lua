-- includes: put delayed_member priorities
-- Gives a job that has not come to the stream another priority, behind all that have it; 0 puts a staged one on the stream.
-- KEYS  1 delayed; 2 stream; 3 prio; 4 prio:jobs; 5 prio:state
-- ARGV  1 job id; 2 its member; 3 priority
-- Reply 1 if it was still there
local delayed, prio, jobs, job_id, member, priority = KEYS[1], KEYS[3], KEYS[4], ARGV[1], ARGV[2], tonumber(ARGV[3])
if not redis.call('ZSCORE', delayed, member) then return 0 end
local rank = rank_in(prio, jobs, job_id, member)
local staged = rank and rank > 0
if priority == 0 then
  if staged then
    put_member(KEYS[2], member)
    redis.call('ZREM', delayed, member)
  end
  unstage(prio, jobs, job_id)
elseif staged then
  redis.call('ZADD', prio, rank_of(KEYS[5], priority), job_id)
else
  park(prio, jobs, job_id, member, priority)
end
return 1
