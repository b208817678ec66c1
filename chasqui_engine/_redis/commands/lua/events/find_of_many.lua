-- Looks through one page of the events, the newest first, for those of some jobs.
-- KEYS  1 events
-- ARGV  1 where to begin; 2 page size; 3… the jobs' ids
-- Reply { id of the last entry searched ('' when there was none), then per event of one of them: its fields }
local wanted = {}
for i = 3, #ARGV do wanted[ARGV[i]] = true end
local page = redis.call('XREVRANGE', KEYS[1], ARGV[1], '-', 'COUNT', ARGV[2])
local reply = { #page > 0 and page[#page][1] or '' }
for i = 1, #page do
  local fields = page[i][2]
  for f = 1, #fields, 2 do
    if fields[f] == 'id' then
      if wanted[fields[f + 1]] then reply[#reply + 1] = fields end
      break
    end
  end
end
return reply
