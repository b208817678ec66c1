-- includes: delivered
-- Finds entries that were delivered and that no consumer has: theirs was deleted by hand. What is given out is at the
-- head of the stream, so they are seen at the latest when all before them has ended.
-- KEYS  1 stream
-- ARGV  1 group; 2 how many to find at most
-- Reply their entry ids
local stream, group, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local last = last_delivered(stream, group)
local found, from = {}, '-'
while last and #found < most do
  local entry = redis.call('XRANGE', stream, from, last, 'COUNT', 1)[1]
  if not entry or #redis.call('XPENDING', stream, group, entry[1], entry[1], 1) > 0 then break end
  found[#found + 1] = entry[1]
  from = '(' .. entry[1]
end
return found
