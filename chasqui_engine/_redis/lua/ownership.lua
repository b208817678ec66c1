-- Shared: which entries are still this consumer's, and how they leave the stream.

-- One range over the batch answers for most of it; what it did not cover is asked one by one.
-- A group that is gone owns nothing.
local function still_mine(stream, group, consumer, ids)
  local mine = {}
  local count = #ids
  if count == 0 then return mine end
  local pending = redis.pcall('XPENDING', stream, group, ids[1], ids[count], count * 2, consumer)
  if pending.err then return mine end
  for i = 1, #pending do mine[pending[i][1]] = true end
  for i = 1, count do
    local id = ids[i]
    if not mine[id] and #redis.call('XPENDING', stream, group, id, id, 1, consumer) == 1 then mine[id] = true end
  end
  return mine
end

local function take_off(stream, group, ackdel, ids)
  if #ids == 0 then return end
  if ackdel == '1' then
    redis.call('XACKDEL', stream, group, 'IDS', #ids, unpack(ids))
  else
    redis.call('XACK', stream, group, unpack(ids))
    redis.call('XDEL', stream, unpack(ids))
  end
end
