-- Looks through one page of the events, the newest first, for jobs that have completed.
-- KEYS  1 events
-- ARGV  1 where to begin; 2 where to end; 3 page size; 4 the jobs' name ('' for any); 5 most to find
-- Reply { id of the last entry searched ('' when there was none), then each `completed` event as an entry }
local page = redis.call('XREVRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
local wanted, most = ARGV[4], tonumber(ARGV[5])
local reply = { '' }
for i = 1, #page do
  local fields, kind, name = page[i][2], '', ''
  for f = 1, #fields, 2 do
    if fields[f] == 'e' then kind = fields[f + 1] elseif fields[f] == 'n' then name = fields[f + 1] end
  end
  reply[1] = page[i][1]
  if kind == 'completed' and (wanted == '' or name == wanted) then
    reply[#reply + 1] = page[i]
    if #reply > most then break end
  end
end
return reply
