-- uses: ownership
-- Says that the entries are still being worked on, so that nobody claims them; never takes one back from another.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; then entry ids
-- Reply the entry ids that are not ours any more
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local ids = {}
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local ours, lost = {}, {}
for i = 1, #ids do
  if mine[ids[i]] then ours[#ours + 1] = ids[i] else lost[#lost + 1] = ids[i] end
end
if #ours > 0 then
  ours[#ours + 1] = 'JUSTID'
  redis.call('XCLAIM', stream, group, consumer, 0, unpack(ours))
end
return lost
