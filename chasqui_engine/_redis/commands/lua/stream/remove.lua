-- includes: delivered emit
-- Deletes jobs that wait, and frees their ids. What a worker was given stays.
-- KEYS  1 stream; 2 events; then per entry the "taken" key of its job
-- ARGV  1 group; 2 events maximum; then per entry: its id, the job's id, the job's name
-- Reply per entry: 1 if it was deleted; 0 if it was not there any more; -1 if it was given to a worker
local stream, events, group, max = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local is_given_out = given_out_by(stream, group)
local now, reply, removed = server_now_ms(), {}, false
for i = 3, #ARGV, 3 do
  local id, n = ARGV[i], i / 3
  if is_given_out(id) then
    reply[n] = -#redis.call('XRANGE', stream, id, id)
  else
    reply[n] = redis.call('XDEL', stream, id)
    if reply[n] == 1 then
      removed = true
      redis.call('DEL', KEYS[2 + n])
      emit(events, max, now, 'removed', ARGV[i + 1], ARGV[i + 2], 'prev', 'waiting')
    end
  end
end
if removed then emit_if_drained(stream, events, max, now) end
return reply
