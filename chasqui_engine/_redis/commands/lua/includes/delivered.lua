-- Shared: how far a group has given the stream out.

-- The id of the last entry that was given out; nil without such a group.
local function last_delivered(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for i = 1, #groups do
    local facts = {}
    for n = 1, #groups[i], 2 do facts[groups[i][n]] = groups[i][n + 1] end
    if facts['name'] == group then return facts['last-delivered-id'] end
  end
  return nil
end

-- Whether an entry id comes before another or is the same; by their digits, which may be more than a number holds.
local function not_after(id, other)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  local other_ms, other_seq = string.match(other, '(%d+)-(%d+)')
  if ms ~= other_ms then return #ms < #other_ms or (#ms == #other_ms and ms < other_ms) end
  return #seq < #other_seq or (#seq == #other_seq and seq <= other_seq)
end
