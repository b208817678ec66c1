-- includes: ownership delivered
-- Says that the entries are still being worked on, so that no consumer claims them. Never takes one back from another; one
-- that no consumer has is made ours again, unless the group has yet to give it out.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; then entry ids
-- Reply the entry ids that are not ours any more
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local ids = {}
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local ours, lost, last = {}, {}, nil
for i = 1, #ids do
  local id = ids[i]
  if mine[id] == 'orphan' then
    last = last or last_delivered(stream, group) or '0-0'
    if not_after(id, last) then
      redis.call('XCLAIM', stream, group, consumer, 0, id, 'FORCE', 'JUSTID')
      mine[id] = true
    end
  end
  if mine[id] == true then ours[#ours + 1] = id else lost[#lost + 1] = id end
end
if #ours > 0 then
  ours[#ours + 1] = 'JUSTID'
  redis.call('XCLAIM', stream, group, consumer, 0, unpack(ours))
end
return lost
