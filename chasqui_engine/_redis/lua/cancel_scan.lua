-- Takes delayed jobs off the delayed set by looking at one page of members for their ids.
-- KEYS  1 delayed; 2… the "taken" key of each job
-- ARGV  1 cursor; 2 page size; 3… the id of each job as MessagePack writes it
-- Reply { next cursor, then the number (from 1) of each job that was taken off }
local delayed = KEYS[1]
local wanted = {}
for i = 3, #ARGV do wanted[ARGV[i]] = i - 2 end

-- The envelope begins after the name, with one byte of array header before the id, which is a string of MessagePack.
local function id_of(member)
  if #member < 4 then return nil end
  local at = 4 + struct.unpack('<I4', member) + 2
  local first, second, third = string.byte(member, at, at + 2)
  local size = 0
  if first and first >= 0xa0 and first <= 0xbf then
    size = 1 + first - 0xa0
  elseif first == 0xd9 and second then
    size = 2 + second
  elseif first == 0xda and third then
    size = 3 + second * 256 + third
  end
  return string.sub(member, at, at + size - 1)
end

local page = redis.call('ZSCAN', delayed, ARGV[1], 'COUNT', ARGV[2])
local reply = { page[1] }
for i = 1, #page[2], 2 do
  local number = wanted[id_of(page[2][i])]
  if number and redis.call('ZREM', delayed, page[2][i]) == 1 then
    redis.call('DEL', KEYS[number + 1])
    reply[#reply + 1] = number
  end
end
return reply
