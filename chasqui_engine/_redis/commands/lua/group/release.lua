-- includes: ownership marks
-- Puts entries that are still ours back on the stream, where any worker has them at once. A mark of one that is to be aborted goes with it.
-- KEYS  1 stream; 2 aborts
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; then entry ids
-- Reply the number put back
local stream, group, consumer, ackdel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ids = {}
for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local marked = marked_among(KEYS[2], ids)
local ours = {}
local put_back = 0
for i = 1, #ids do
  if mine[ids[i]] then
    local entry = redis.call('XRANGE', stream, ids[i], ids[i])[1]
    if entry then
      -- A call takes no more than that. No job has so many fields; an entry that has them is buried by the worker that reads it.
      local added = redis.call('XADD', stream, '*', unpack(entry[2], 1, math.min(#entry[2], 7000)))
      -- The old mark stays: without it, the entry that is gone would look aborted.
      if marked[ids[i]] then redis.call('ZADD', KEYS[2], marked[ids[i]], added) end
      put_back = put_back + 1
    end
    ours[#ours + 1] = ids[i]
  end
end
take_off(stream, group, ackdel, ours)
return put_back
