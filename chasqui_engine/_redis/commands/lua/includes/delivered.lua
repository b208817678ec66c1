-- Shared: how far a group has given the stream out.

-- Calls `visit` with the facts of each group, by their names.
local function visit_groups(stream, visit)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for i = 1, #groups do
    local facts = {}
    for n = 1, #groups[i], 2 do facts[groups[i][n]] = groups[i][n + 1] end
    visit(facts)
  end
end

-- The id of the last entry that was given out; nil without such a group.
local function last_delivered(stream, group)
  local last = nil
  visit_groups(stream, function(facts)
    if facts['name'] == group then last = facts['last-delivered-id'] end
  end)
  return last
end

-- Whether an entry id comes before another or is the same; by their digits, which may be more than a number holds.
local function not_after(id, other)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  local other_ms, other_seq = string.match(other, '(%d+)-(%d+)')
  if ms ~= other_ms then return #ms < #other_ms or (#ms == #other_ms and ms < other_ms) end
  return #seq < #other_seq or (#seq == #other_seq and seq <= other_seq)
end

-- A function that says whether an entry was given to a worker of the group, or is held by one of another group.
local function given_out_by(stream, group)
  local last, others = nil, {}
  visit_groups(stream, function(facts)
    if facts['name'] == group then last = facts['last-delivered-id'] else others[#others + 1] = facts['name'] end
  end)
  return function(id)
    if last and not_after(id, last) then return true end
    for _, other in ipairs(others) do
      if #redis.call('XPENDING', stream, other, id, id, 1) > 0 then return true end
    end
    return false
  end
end
