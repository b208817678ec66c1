-- uses: events
-- Moves due jobs from the delayed set into the stream. One that was cancelled, or moved by another, is passed over.
-- KEYS  1 delayed; 2 stream; 3 events; 4… the index key of each job
-- ARGV  1 events maximum; then per job: member, envelope, name, job id
-- Reply the number moved
local delayed, stream, events, max = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local now = server_now_ms()
local moved = 0
for i = 2, #ARGV, 4 do
  local member, envelope, name, job_id = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local run_at = redis.call('ZSCORE', delayed, member)
  if run_at and tonumber(run_at) <= tonumber(now) then
    if name == '' then
      redis.call('XADD', stream, '*', 'd', envelope)
    else
      redis.call('XADD', stream, '*', 'd', envelope, 'n', name)
    end
    redis.call('ZREM', delayed, member)
    redis.call('DEL', KEYS[4 + (i - 2) / 4])
    emit(events, max, now, 'waiting', job_id, name)
    moved = moved + 1
  end
end
return moved
