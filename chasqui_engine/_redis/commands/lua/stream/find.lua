-- Looks through one page of a stream for the entry of a job.
-- KEYS  1 stream, or dead letters
-- ARGV  1 'XRANGE' or 'XREVRANGE'; 2 where to begin; 3 where to end; 4 page size; 5 the job's id as MessagePack writes it
-- Reply { id of the last entry searched ('' when there was none) } or, found, { its id, its fields }
local page = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4])
local wanted = ARGV[5]
for i = 1, #page do
  local fields = page[i][2]
  for f = 1, #fields, 2 do
    -- An envelope begins with one byte of array header, and then the id.
    if fields[f] == 'd' and string.sub(fields[f + 1], 2, 1 + #wanted) == wanted then
      return { page[i][1], fields }
    end
  end
end
return { #page > 0 and page[#page][1] or '' }
