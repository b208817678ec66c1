-- Looks through one page of the delayed set for a job.
-- KEYS  1 delayed
-- ARGV  1 cursor; 2 page size; 3 the job's id as MessagePack writes it
-- Reply { next cursor } or, found, { next cursor, member, score }
local wanted = ARGV[3]
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
for i = 1, #page[2], 2 do
  local member = page[2][i]
  if #member >= 4 then
    -- After the length of the name and the name: one byte of array header, and then the id.
    local at = 4 + struct.unpack('<I4', member) + 2
    if string.sub(member, at, at + #wanted - 1) == wanted then return { page[1], member, page[2][i + 1] } end
  end
end
return { page[1] }
