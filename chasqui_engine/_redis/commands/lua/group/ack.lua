-- includes: ownership emit
-- Ends jobs that ran well: off the stream, their results kept, their `completed` emitted; each only if still ours.
-- KEYS  1 stream; 2 events; 3… the result key of each job, where results are kept
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; 4 events maximum; 5 result seconds ('0' = not kept);
--       then per job: entry id; with events: job id, name, attempt, duration in us; with results: the result
-- Reply the entry ids that were not ours any more
local stream, events, group, consumer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local ackdel, max, ttl = ARGV[3], ARGV[4], ARGV[5]
local emits, kept = max ~= '0', ttl ~= '0'
local step = 1 + (emits and 4 or 0) + (kept and 1 or 0)
local ids = {}
for i = 6, #ARGV, step do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local ours, lost = {}, {}
for i = 1, #ids do
  if mine[ids[i]] then ours[#ours + 1] = ids[i] else lost[#lost + 1] = ids[i] end
end
take_off(stream, group, ackdel, ours)
if #ours == 0 or not (emits or kept) then return lost end
local now, last = emits and server_now_ms(), ours[#ours]
for n = 1, #ids do
  local i, id = 6 + (n - 1) * step, ids[n]
  if mine[id] then
    if kept then redis.pcall('SET', KEYS[2 + n], ARGV[i + step - 1], 'EX', ttl) end
    if emits then
      local job_id, name, attempt, duration = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
      if id == last then
        emit(events, max, now, 'completed', job_id, name, 'attempt', attempt, 'duration_us', duration, 'worker', consumer)
      else
        emit_untrimmed(events, now, 'completed', job_id, name, 'attempt', attempt, 'duration_us', duration,
          'worker', consumer)
      end
    end
  end
end
if emits then emit_if_drained(stream, events, max, now) end
return lost
