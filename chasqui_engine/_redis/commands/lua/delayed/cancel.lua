-- Takes delayed jobs with an id of their own off the delayed set, and frees the ids.
-- KEYS  1 delayed; then per job: its index key, its "taken" key
-- Reply per job: 1 if it was taken off; 0 if the index does not lead to it
local delayed = KEYS[1]
local reply = {}
for i = 2, #KEYS, 2 do
  local member = redis.call('GET', KEYS[i])
  local found = 0
  if member then
    found = redis.call('ZREM', delayed, member)
    redis.call('DEL', KEYS[i])
    if found == 1 then redis.call('DEL', KEYS[i + 1]) end
  end
  reply[i / 2] = found
end
return reply
