-- includes: put delayed_member delivered priorities
-- Moves staged jobs up to the stream and reads them, unless other jobs wait there: those are first.
-- KEYS  1 stream; 2 delayed; 3 prio; 4 prio:jobs; 5 uses
-- ARGV  1 group; 2 consumer; 3 how many at most
-- Reply { 1 if other jobs wait, else 0; 1 if jobs may have headers; then the entries, as XREADGROUP gives those of a stream }
local stream, group, most = KEYS[1], ARGV[1], tonumber(ARGV[3])
local last = last_delivered(stream, group)
if not last then return { 0, 0 } end
if #redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1) > 0 then return { 1, 0 } end
local reply = { 0, redis.call('EXISTS', KEYS[5]) }
local moved = move_up(stream, KEYS[2], KEYS[3], KEYS[4], most)
if moved > 0 then
  local read = redis.call('XREADGROUP', 'GROUP', group, ARGV[2], 'COUNT', moved, 'STREAMS', stream, '>')
  for _, entry in ipairs(read and read[1][2] or {}) do reply[#reply + 1] = entry end
end
return reply
