-- Shared: which entries are still this consumer's, and how they leave the stream.

-- Per entry id: true if it is this consumer's; 'orphan' if it is on the stream and no consumer has it, because the consumer or
-- the group was deleted by hand: the worker that runs it is still the one to end it; nil if it is another's, or gone.
-- One range over the batch answers for most of it; what it did not cover is asked one by one.
local function still_mine(stream, group, consumer, ids)
  local mine = {}
  local count = #ids
  if count == 0 then return mine end
  local pending = redis.pcall('XPENDING', stream, group, ids[1], ids[count], count * 2, consumer)
  for i = 1, #pending do mine[pending[i][1]] = true end
  for i = 1, count do
    local id = ids[i]
    if not mine[id] then
      local holder = redis.pcall('XPENDING', stream, group, id, id, 1)
      if #holder == 1 then
        mine[id] = holder[1][2] == consumer or nil
      elseif #redis.pcall('XRANGE', stream, id, id) == 1 then
        mine[id] = 'orphan'
      end
    end
  end
  return mine
end

local function take_off(stream, group, ackdel, ids)
  if #ids == 0 then return end
  if ackdel == '1' then
    local ended = redis.call('XACKDEL', stream, group, 'IDS', #ids, unpack(ids))
    for i = 1, #ids do
      -- It leaves orphans alone.
      if ended[i] == -1 then redis.call('XDEL', stream, ids[i]) end
    end
  else
    redis.call('XACK', stream, group, unpack(ids))
    redis.call('XDEL', stream, unpack(ids))
  end
end
