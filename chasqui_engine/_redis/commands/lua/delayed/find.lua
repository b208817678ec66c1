-- includes: delayed_member
-- Looks through one page of the delayed set for a job.
-- KEYS  1 delayed
-- ARGV  1 cursor; 2 page size; 3 the job's id
-- Reply { next cursor } or, found, { next cursor, member, score }
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
for i = 1, #page[2], 2 do
  if id_of(page[2][i]) == ARGV[3] then return { page[1], page[2][i], page[2][i + 1] } end
end
return { page[1] }
