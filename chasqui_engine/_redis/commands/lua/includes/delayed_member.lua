-- Shared: members of the delayed set. Each is the length of the name (u32, little-endian), the name, and the envelope.

-- Where the name ends; nil for what cannot be taken apart.
local function name_end(member)
  if #member < 4 then return nil end
  local at = 4 + struct.unpack('<I4', member)
  return at <= #member and at or nil
end

-- The id in the envelope that begins after `at`: one byte of array header, and then a string of MessagePack.
-- '' where there is none, or none that anybody could have added a job with.
local function id_after(bytes, at)
  local header, first, second, third = string.byte(bytes, at + 1, at + 4)
  if not first or header < 0x91 or header > 0x9f then return '' end
  local start, size = at + 3, nil
  if first >= 0xa0 and first <= 0xbf then
    size = first - 0xa0
  elseif first == 0xd9 and second then
    start, size = at + 4, second
  elseif first == 0xda and third then
    start, size = at + 5, second * 256 + third
  end
  if not size or size > 1024 or start + size - 1 > #bytes then return '' end
  return string.sub(bytes, start, start + size - 1)
end

local function id_of(member)
  local at = name_end(member)
  return at and id_after(member, at) or ''
end

-- Calls `visit` with what is due, the first due first, until it returns false; at most so many, and so many bytes (but
-- one in any case). `stays` says that what was visited is still in the set. A member's size shows only when it is
-- there: so they are asked for one by one while they are large.
-- Returns whether a bound was met.
local function visit_due(delayed, now_ms, most, most_bytes, stays, visit)
  local seen, bytes, size = 0, 0, 1
  while seen < most and bytes < most_bytes do
    local start, wanted, before = stays and seen or 0, math.min(size, most - seen), bytes
    local page = redis.call('ZRANGE', delayed, start, start + wanted - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      if tonumber(page[i + 1]) > now_ms or visit(page[i]) == false then return false end
      seen, bytes = seen + 1, bytes + #page[i]
      if bytes >= most_bytes then return true end
    end
    if #page < 2 * wanted then return false end
    size = bytes - before < 65536 and math.min(4 * size, 16) or 1
  end
  return true
end

-- The name, for an event; one that is too long for any job is left out.
local function told_name(member)
  local at = name_end(member)
  return at and at > 4 and at <= 4 + 256 and string.sub(member, 5, at) or ''
end
