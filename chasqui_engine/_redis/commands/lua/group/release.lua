-- includes: ownership
-- Puts entries that are still ours back on the stream, where any worker has them at once.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; then entry ids
-- Reply the number put back
local stream, group, consumer, ackdel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ids = {}
for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local ours = {}
local put_back = 0
for i = 1, #ids do
  if mine[ids[i]] then
    local entry = redis.call('XRANGE', stream, ids[i], ids[i])[1]
    if entry then
      -- A call takes no more than that. No job has so many fields; an entry that has them is buried by the worker that reads it.
      redis.call('XADD', stream, '*', unpack(entry[2], 1, math.min(#entry[2], 7000)))
      put_back = put_back + 1
    end
    ours[#ours + 1] = ids[i]
  end
end
take_off(stream, group, ackdel, ours)
return put_back
