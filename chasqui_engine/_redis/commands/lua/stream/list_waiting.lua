-- includes: delivered delayed_member
-- A page of the jobs that wait: what the group was not given yet, without the payloads.
-- KEYS  1 stream
-- ARGV  1 group; 2 the entry after which to begin ('' for the first); 3 the last entry to look at; 4 most entries; 5 most bytes
--       to look at
-- Reply per entry: its id, the job's id ('' if it has none), the job's name; nothing at the end
local stream, last, left, bytes = KEYS[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local start = ARGV[2] ~= '' and ARGV[2] or last_delivered(stream, ARGV[1])
start = start and '(' .. start or '-'
local reply = {}
while left > 0 and bytes > 0 do
  -- A few at a time: their size shows only when they are read.
  local page = redis.call('XRANGE', stream, start, last, 'COUNT', math.min(left, 8))
  for i = 1, #page do
    local job_id, name = '', ''
    for f = 1, #page[i][2], 2 do
      local field, value = page[i][2][f], page[i][2][f + 1]
      bytes = bytes - #value
      if field == 'd' then job_id = id_after(value, 0) elseif field == 'n' then name = value end
    end
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = page[i][1], job_id, name
    start = '(' .. page[i][1]
  end
  if #page < math.min(left, 8) then break end
  left = left - #page
end
return reply
