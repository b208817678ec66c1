-- includes: emit headers
-- Puts jobs into the delayed set. An id that is taken already is passed over.
-- KEYS  1 delayed; 2 events; then as the jobs say: of each with an id of its own the "taken" key and the index key, of each with
--       headers their key; last, with headers, `uses`
-- ARGV  1 seconds an id stays taken after its job was due; 2 events maximum; 3 '1' if times are delays from now;
--       4 seconds that headers are kept after the job was due ('' = no job has any); then per job: time or delay in ms, member, job
--       id, name, index of its "taken" key ('0' for none), and where jobs have headers: headers ('' for none), index of their key
-- Reply the number scheduled
local delayed, events, ttl, max, relative = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local headers_ttl = tonumber(ARGV[4])
local now = server_now_ms()
local scheduled = 0
for i = 5, #ARGV, headers_ttl and 7 or 5 do
  local member, job_id, name, key = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
  local run_at = tonumber(ARGV[i])
  if relative then run_at = run_at + tonumber(now) end
  local delay = math.max(0, run_at - tonumber(now))
  local expiry = math.ceil(delay / 1000) + ttl
  if key == 0 or redis.call('SET', KEYS[key], '1', 'NX', 'EX', expiry) then
    local reply = redis.pcall('ZADD', delayed, run_at, member)
    if type(reply) == 'table' then
      -- Left taken, the id would have the next try passed over.
      if key > 0 then redis.call('DEL', KEYS[key]) end
      return reply
    end
    if key > 0 then redis.call('SET', KEYS[key + 1], member, 'EX', expiry) end
    if headers_ttl and ARGV[i + 5] ~= '' then
      keep_headers(KEYS[#KEYS], KEYS[tonumber(ARGV[i + 6])], ARGV[i + 5], math.ceil(delay / 1000) + headers_ttl)
    end
    emit(events, max, now, 'delayed', job_id, name, 'delay_ms', delay)
    scheduled = scheduled + 1
  end
end
return scheduled
