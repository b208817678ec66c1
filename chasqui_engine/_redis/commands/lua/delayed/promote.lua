-- includes: put delayed_member promotion emit
-- Moves due jobs from the delayed set onto the stream, the first due first, up to one that was not announced. What was
-- cancelled, or moved by another, is not there any more. No payload leaves the server.
-- KEYS  1 delayed; 2 stream; 3 events; then the index key of each job that has an id, and, where jobs may have headers, the headers
--       key of each
-- ARGV  1 events maximum; 2 how many at most; 3 how many bytes at most; 4… the id that each index key is for
-- Reply {the number moved, now in ms, score of the first that is left ('' where there is none)}
local delayed, stream, events, max = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local index, headers = {}, {}
for i = 4, #ARGV do
  index[ARGV[i]] = KEYS[i]
  headers[ARGV[i]] = KEYS[i + #ARGV - 3]
end
local now = server_now_ms()
local moved = 0
visit_due(delayed, tonumber(now), tonumber(ARGV[2]), tonumber(ARGV[3]), false, function(member)
  local job_id = id_of(member)
  if job_id ~= '' and not index[job_id] then return false end
  local kept = headers[job_id]
  promote_member(delayed, stream, member, kept and redis.call('GET', kept))
  if job_id ~= '' then redis.call('DEL', index[job_id]) end
  emit(events, max, now, 'waiting', job_id, told_name(member))
  moved = moved + 1
end)
return { moved, tonumber(now), redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or '' }
