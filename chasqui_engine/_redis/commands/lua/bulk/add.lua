-- includes: put
-- Puts one chunk of a bulk write on the stream, all or none, unless that chunk is there already.
-- KEYS  1 stream; 2 fence (a hash of the chunks that are written)
-- ARGV  1 chunk ('' = no fence); 2 digest of its rows; 3 seconds the fence stays; 4 most entries the stream may hold
--       after this; 5 '1' to trim the oldest instead of refusing; then per job: name ('' for none), envelope
-- Reply the number added; -1 when the stream is too full; -2 when the chunk was written before; -3 when it was written
--       before with other rows
local stream, fence, chunk, max, trim = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[4]), ARGV[5] == '1'
if chunk ~= '' then
  local before = redis.call('HGET', fence, chunk)
  if before then return before == ARGV[2] and -2 or -3 end
end
local jobs = (#ARGV - 5) / 2
if not trim and redis.call('XLEN', stream) + jobs > max then return -1 end
for i = 6, #ARGV, 2 do
  local refused = put(stream, trim and max, ARGV[i], ARGV[i + 1])
  if refused then return refused end
end
if chunk ~= '' then
  redis.call('HSET', fence, chunk, ARGV[2])
  redis.call('EXPIRE', fence, ARGV[3])
end
return jobs
