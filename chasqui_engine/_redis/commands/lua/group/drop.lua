-- includes: ownership emit dropped
-- Ends jobs that were aborted or have expired: off the stream, and into no other place; each only if still ours.
-- KEYS  1 stream; 2 events; 3 aborts; then per job: its failure key, its "taken" key
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; 4 events maximum; 5 failure seconds; then per job: entry id,
--       'aborted' or 'expired', job id, name, attempt, duration in us ('' if no handler ran), failure record
-- Reply per job: 1 ended; 0 not ours any more
local stream, events, aborts, group, consumer = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local ackdel, max, ttl = ARGV[3], ARGV[4], ARGV[5]
local ids = {}
for i = 6, #ARGV, 7 do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local now = server_now_ms()
local dropped, reply = {}, {}
for n = 1, #ids do
  local i = 6 + (n - 1) * 7
  reply[n] = mine[ids[n]] and 1 or 0
  if reply[n] == 1 then
    dropped[#dropped + 1] = ids[n]
    local kind, job_id, name, attempt, duration = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
    -- That the mark is gone with its entry says that the job was aborted.
    if kind == 'aborted' then redis.call('ZREM', aborts, ids[n]) end
    if duration ~= '' then
      emit(events, max, now, 'failed', job_id, name, 'attempt', attempt, 'reason', kind, 'duration_us', duration)
    end
    record_drop(events, max, now, kind, job_id, name, attempt, KEYS[2 + 2 * n], ttl, ARGV[i + 6], KEYS[3 + 2 * n])
  end
end
take_off(stream, group, ackdel, dropped)
if #dropped > 0 then emit_if_drained(stream, events, max, now) end
return reply
