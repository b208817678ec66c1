-- includes: put delayed_member ownership emit headers priorities marks
-- Moves jobs that failed, or were postponed, to the delayed set, to run again; each only if still ours.
-- KEYS  1 stream; 2 delayed; 3 events; 4 prio; 5 prio:jobs; 6 aborts; where jobs have headers, the headers key of each, and `uses`
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; 4 events maximum; 5 seconds that headers are kept after the
--       job is due ('' = no job has any); then per job: entry id, member, backoff in ms, job id, name, runs that count so far, error ('' if none failed),
--       duration in us, time to run in ms in place of the backoff ('' for none), the error's class ('' if none
--       failed), priority ('0' for none); where jobs have headers: headers ('' for none)
-- Reply per job: 1 moved; 0 not ours any more; it stays where it is: -1 the server is full, -3 it is to be aborted
local stream, delayed, events = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, ackdel, max = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local headers_ttl, first = tonumber(ARGV[5]), 6
local step = headers_ttl and 12 or 11
local ids = {}
for i = first, #ARGV, step do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local marked = marked_among(KEYS[6], ids)
local now = server_now_ms()
local moved, reply = {}, {}
for n = 1, #ids do
  local i = first + (n - 1) * step
  local backoff, run_at = ARGV[i + 2], ARGV[i + 8]
  if run_at ~= '' then backoff = string.format('%.0f', math.max(0, tonumber(run_at) - tonumber(now))) end
  if not mine[ids[n]] then
    reply[n] = 0
  elseif marked[ids[n]] then
    reply[n] = -3
  elseif type(redis.pcall('ZADD', delayed, tonumber(now) + tonumber(backoff), ARGV[i + 1])) == 'table' then
    reply[n] = -1
  else
    reply[n] = 1
    moved[#moved + 1] = ids[n]
    if ARGV[i + 10] ~= '0' then park(KEYS[4], KEYS[5], ARGV[i + 3], ARGV[i + 1], tonumber(ARGV[i + 10])) end
    if headers_ttl and ARGV[i + 11] ~= '' then
      keep_headers(KEYS[#KEYS], KEYS[6 + n], ARGV[i + 11], math.ceil(tonumber(backoff) / 1000) + headers_ttl)
    end
    local job_id, name, attempt = ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
    local reason, duration, class, coming = ARGV[i + 6], ARGV[i + 7], ARGV[i + 9], tonumber(attempt) + 1
    if reason ~= '' then
      emit(events, max, now, 'failed', job_id, name, 'attempt', attempt, 'reason', reason, 'duration_us', duration,
        'error_type', class, 'worker', consumer)
      emit(events, max, now, 'retry-scheduled', job_id, name, 'attempt', coming, 'backoff_ms', backoff,
        'error_type', class)
    else
      emit(events, max, now, 'retry-scheduled', job_id, name, 'attempt', coming, 'backoff_ms', backoff)
    end
  end
end
take_off(stream, group, ackdel, moved)
if #moved > 0 then emit_if_drained(stream, events, max, now) end
return reply
