-- A page of the delayed set, the next to run first, that is bounded by its bytes too: it ends with the member that reaches
-- the bound.
-- KEYS  1 delayed
-- ARGV  1 how many to skip; 2 most members; 3 most bytes
-- Reply the members
local start, left, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local reply = {}
while left > 0 and bytes > 0 do
  local step = math.min(left, 8)
  local page = redis.call('ZRANGE', KEYS[1], start, start + step - 1)
  for i = 1, #page do
    reply[#reply + 1] = page[i]
    bytes = bytes - #page[i]
    if bytes <= 0 then break end
  end
  if #page < step then break end
  start, left = start + step, left - step
end
return reply
