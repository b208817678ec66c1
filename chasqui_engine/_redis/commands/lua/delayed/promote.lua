-- includes: put delayed_member promotion emit priorities
-- Moves due jobs from the delayed set onto the stream, the first due first, up to one that was not announced. What was
-- cancelled, or moved by another, is not there any more. No payload leaves the server. A job with a priority is staged when it is
-- due for the first time, and moved when it has waited too long after that.
-- KEYS  1 delayed; 2 stream; 3 events; 4 prio; 5 prio:jobs; 6 prio:state; then the index key of each job that has an id, and, where
--       jobs may have headers, the headers key of each
-- ARGV  1 events maximum; 2 how many at most; 3 how many bytes at most; 4… the id that each index key is for
-- Reply {the number moved, now in ms, score of the first that is left ('' where there is none)}
local delayed, stream, events, max = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local index, headers = {}, {}
for i = 4, #ARGV do
  index[ARGV[i]] = KEYS[i + 3]
  headers[ARGV[i]] = KEYS[i + #ARGV]
end
local now = server_now_ms()
local prio, jobs, state = KEYS[4], KEYS[5], KEYS[6]
local ranked = redis.call('EXISTS', prio) == 1
local longest_wait_ms = ranked and (redis.call('HGET', state, 'longest_wait_ms') or LONGEST_WAIT_MS)
local moved = 0
visit_due(delayed, tonumber(now), tonumber(ARGV[2]), tonumber(ARGV[3]), false, function(member)
  local job_id = id_of(member)
  if job_id ~= '' and not index[job_id] then return false end
  local rank = ranked and job_id ~= '' and rank_in(prio, jobs, job_id, member)
  if rank and rank < 0 then
    stage(delayed, prio, jobs, state, job_id, member, -rank, tonumber(now) + tonumber(longest_wait_ms))
  else
    local kept = headers[job_id]
    promote_member(delayed, stream, member, kept and redis.call('GET', kept), rank and priority_in(rank))
    if rank then unstage(prio, jobs, job_id) end
  end
  if job_id ~= '' then redis.call('DEL', index[job_id]) end
  -- That it waits was told when it was staged, or it was added for now.
  if not rank or rank < 0 then emit(events, max, now, 'waiting', job_id, told_name(member)) end
  moved = moved + 1
end)
return { moved, tonumber(now), redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or '' }
