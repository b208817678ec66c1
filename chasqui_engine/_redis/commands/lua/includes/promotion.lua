-- Shared: from the delayed set to the stream.

-- Moves a member onto the stream, with its headers if it has any. What cannot be taken apart goes there whole, for a worker to
-- bury.
local function promote_member(delayed, stream, member, headers, priority)
  local at = name_end(member) or 0
  local name = at > 4 and string.sub(member, 5, at) or ''
  redis.call('XADD', stream, '*', fields_of(name, at == 0 and member or string.sub(member, at + 1), headers, priority))
  redis.call('ZREM', delayed, member)
end
