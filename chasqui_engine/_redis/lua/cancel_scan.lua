-- Takes a delayed job off the delayed set by looking at one page of members for its id.
-- KEYS  1 delayed; 2 the job's "taken" key
-- ARGV  1 cursor; 2 page size; 3 the id as MessagePack writes it
-- Reply { next cursor, 1 if it was found and removed else 0 }
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local id = ARGV[3]
for i = 1, #page[2], 2 do
  local member = page[2][i]
  if #member >= 4 then
    -- The envelope begins after the name, with one byte of array header before the id.
    local at = 4 + struct.unpack('<I4', member) + 2
    if string.sub(member, at, at + #id - 1) == id then
      redis.call('ZREM', KEYS[1], member)
      redis.call('DEL', KEYS[2])
      return { '0', 1 }
    end
  end
end
return { page[1], 0 }
