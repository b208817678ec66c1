-- includes: ownership emit
-- Moves dead jobs to the dead-letter stream and writes the outcome for those who wait; each only if still ours.
-- KEYS  1 stream; 2 dead letters; 3 events; 4… the failure key of each job that has an id
-- ARGV  1 group; 2 consumer; 3 '1' if the server has XACKDEL; 4 events maximum; 5 most dead letters kept;
--       6 failure seconds; then per job: entry id, envelope, name, reason, detail ('' for none), job id, attempt,
--       error ('' if no handler ran), duration in us ('' likewise), failure record, index of its failure key ('0'),
--       headers ('' for none), the error's class ('' if no handler ran), priority ('0' for none)
-- Reply per job: 1 buried; 0 not ours any more; it stays where it is: -1 the server is full, -2 the dead letters have used
--       their last id
local stream, dlq, events = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, ackdel, max, dlq_max, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local ids = {}
for i = 7, #ARGV, 14 do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local now = server_now_ms()
local buried, reply = {}, {}

local function lay_down(entry_id, envelope, name, reason, detail, headers, priority)
  local fields = { 'd', envelope }
  if name ~= '' then fields[3], fields[4] = 'n', name end
  local at = #fields
  fields[at + 1], fields[at + 2], fields[at + 3], fields[at + 4] = 'source_id', entry_id, 'reason', reason
  if detail ~= '' then fields[at + 5], fields[at + 6] = 'detail', detail end
  if headers ~= '' then
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = headers
  end
  if priority ~= '0' then
    fields[#fields + 1] = 'p'
    fields[#fields + 1] = priority
  end
  local laid = redis.pcall('XADD', dlq, 'MAXLEN', '~', dlq_max, '*', unpack(fields))
  if type(laid) ~= 'table' then return 1 end
  return string.find(laid.err, 'exhausted', 1, true) and -2 or -1
end

local function emit_death(job_id, name, reason, attempt, err, duration, class)
  if duration ~= '' then
    emit(events, max, now, 'failed', job_id, name, 'attempt', attempt, 'reason', err, 'duration_us', duration,
      'error_type', class, 'worker', consumer)
  else
    emit(events, max, now, 'failed', job_id, name, 'attempt', attempt, 'reason', err)
  end
  emit(events, max, now, 'dlq', job_id, name, 'attempt', attempt, 'reason', reason)
end

for n = 1, #ids do
  local i = 7 + (n - 1) * 14
  local name, reason, failure_key = ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 10])
  local headers, priority = ARGV[i + 11], ARGV[i + 13]
  reply[n] = mine[ids[n]] and lay_down(ids[n], ARGV[i + 1], name, reason, ARGV[i + 4], headers, priority) or 0
  if reply[n] == 1 then
    buried[#buried + 1] = ids[n]
    if failure_key > 0 then redis.pcall('SET', KEYS[failure_key], ARGV[i + 9], 'EX', ttl) end
    emit_death(ARGV[i + 5], name, reason, ARGV[i + 6], ARGV[i + 7], ARGV[i + 8], ARGV[i + 12])
  end
end
take_off(stream, group, ackdel, buried)
if #buried > 0 then emit_if_drained(stream, events, max, now) end
return reply
