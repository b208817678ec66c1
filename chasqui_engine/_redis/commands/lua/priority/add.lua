-- includes: put headers delayed_member delivered emit priorities
-- Adds jobs with a priority: beside the stream, or for later into the delayed set. An id that is taken already is passed over.
-- KEYS  1 stream; 2 delayed; 3 events; 4 prio; 5 prio:jobs; 6 prio:state; then as the jobs say: of each with an id of its own the
--       "taken" key and the index key, of each with headers their key; last, with headers, `uses`
-- ARGV  1 most jobs that stream and prio may hold after this ('' = any number); 2 seconds an id stays taken; 3 events maximum;
--       4 ms after which a job has waited too long; 5 seconds that headers are kept ('' = no job has any); then per job: priority,
--       member, job id, name, 'now', 'in' or 'at', delay or time in ms, index of its "taken" key ('0' for none), headers ('' for
--       none), index of their key
-- Reply the number added; -1 when there is no room for all of them
local stream, delayed, events, prio, jobs, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ttl, max, wait_ms, headers_ttl = tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST, STEP = 6, 9
local now = server_now_ms()
local now_ms = tonumber(now)

local function delay_of(i)
  if ARGV[i + 4] == 'now' then return 0 end
  return math.max(0, tonumber(ARGV[i + 5]) - (ARGV[i + 4] == 'at' and now_ms or 0))
end

local function count_new_for_now()
  local count = 0
  for i = FIRST, #ARGV, STEP do
    local key = KEYS[tonumber(ARGV[i + 6])]
    if delay_of(i) == 0 and not (key and redis.call('EXISTS', key) == 1) then count = count + 1 end
  end
  return count
end

local function put_later(i, delay, expiry)
  local member, job_id, key = ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 6])
  local refused = redis.pcall('ZADD', delayed, string.format('%.0f', now_ms + delay), member)
  if type(refused) == 'table' then return refused end
  park(prio, jobs, job_id, member, tonumber(ARGV[i]))
  if key > 0 then redis.call('SET', KEYS[key + 1], member, 'EX', expiry) end
  emit(events, max, now, 'delayed', job_id, ARGV[i + 3], 'delay_ms', string.format('%.0f', delay))
end

-- Whether a worker waits for a job: then one may go to it at once.
local function is_dry()
  if redis.call('XLEN', stream) > 0 then return false end
  local waited_for = false
  visit_groups(stream, function(facts) waited_for = waited_for or facts['consumers'] > 0 end)
  return waited_for
end

if ARGV[1] ~= '' then
  local new = count_new_for_now()
  local held = redis.call('XLEN', stream) + redis.call('ZCOUNT', prio, LANE, '+inf')
  if new > 0 and held + new > tonumber(ARGV[1]) then return -1 end
end
redis.call('HSET', state, 'longest_wait_ms', wait_ms)
local added = 0
for i = FIRST, #ARGV, STEP do
  local key, delay = tonumber(ARGV[i + 6]), delay_of(i)
  local expiry = math.ceil(delay / 1000) + ttl
  if key == 0 or redis.call('SET', KEYS[key], '1', 'NX', 'EX', expiry) then
    local refused
    if delay > 0 then
      refused = put_later(i, delay, expiry)
    else
      refused = stage(delayed, prio, jobs, state, ARGV[i + 2], ARGV[i + 1], tonumber(ARGV[i]), now_ms + tonumber(wait_ms))
    end
    if refused then
      -- Left taken, the id would have the next try passed over.
      if key > 0 then redis.call('DEL', KEYS[key]) end
      return refused
    end
    if headers_ttl and ARGV[i + 7] ~= '' then
      local kept_s = math.ceil((delay + tonumber(wait_ms)) / 1000) + headers_ttl
      keep_headers(KEYS[#KEYS], KEYS[tonumber(ARGV[i + 8])], ARGV[i + 7], kept_s)
    end
    added = added + 1
  end
end
if added > 0 then
  if is_dry() then move_up(stream, delayed, prio, jobs, 1) end
  sweep(delayed, prio, jobs, 2 * added)
end
return added
