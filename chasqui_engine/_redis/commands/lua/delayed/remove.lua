-- includes: emit
-- Deletes delayed jobs, and frees their ids. One that was promoted or cancelled meanwhile is passed over.
-- KEYS  1 delayed; 2 events; then per job: its index key, its "taken" key
-- ARGV  1 events maximum; then per job: member, the job's id, the job's name
-- Reply per job: 1 if it was deleted
local delayed, events, max = KEYS[1], KEYS[2], ARGV[1]
local now, reply = server_now_ms(), {}
for i = 2, #ARGV, 3 do
  local n = (i + 1) / 3
  reply[n] = redis.call('ZREM', delayed, ARGV[i])
  if reply[n] == 1 then
    redis.call('DEL', KEYS[1 + 2 * n], KEYS[2 + 2 * n])
    emit(events, max, now, 'removed', ARGV[i + 1], ARGV[i + 2], 'prev', 'delayed')
  end
end
return reply
