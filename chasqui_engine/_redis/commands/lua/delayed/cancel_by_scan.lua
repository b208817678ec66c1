-- includes: delayed_member
-- Takes delayed jobs off the delayed set by looking at one page of members for their ids.
-- KEYS  1 delayed; 2… the "taken" key of each job
-- ARGV  1 cursor; 2 page size; 3… the id of each job
-- Reply { next cursor, then the number (from 1) of each job that was taken off }
local delayed = KEYS[1]
local wanted = {}
for i = 3, #ARGV do wanted[ARGV[i]] = i - 2 end
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
