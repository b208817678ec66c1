-- A page of a stream that is bounded by its bytes too: it ends with the entry that reaches the bound.
-- KEYS  1 stream
-- ARGV  1 'XRANGE' or 'XREVRANGE'; 2 where to begin; 3 where to end; 4 most entries; 5 most bytes
-- Reply entries, as the command gives them; fewer than asked for does not mean that there are no more
local command, start, left, bytes = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = {}
while left > 0 and bytes > 0 do
  -- A few at a time: what is read beyond the bound was read for nothing.
  local step = math.min(left, 8)
  local page = redis.call(command, KEYS[1], start, ARGV[3], 'COUNT', step)
  for i = 1, #page do
    found[#found + 1] = page[i]
    for f = 1, #page[i][2] do bytes = bytes - #page[i][2][f] end
    if bytes <= 0 then break end
  end
  if #page < step then break end
  start, left = '(' .. page[#page][1], left - step
end
return found
