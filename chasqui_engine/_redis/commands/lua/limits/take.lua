-- includes: put delayed_member delivered emit priorities
-- Reads as many new entries as the limits of the queue allow: those that wait on the stream, then staged jobs.
-- KEYS  1 stream; 2 limits; 3 limiter; 4 delayed; 5 prio; 6 prio:jobs; 7 events
-- ARGV  1 group; 2 consumer; 3 how many at most; 4 events maximum; 5 '1' to tell that the rate is met
-- Reply { 'rate', 'slots' (all in use), 'empty' or '' (more may be there); ms to wait for the rate; the last entry that the group was
--         given; then the entries, as XREADGROUP gives those of a stream }
local stream, limiter, group = KEYS[1], KEYS[3], ARGV[1]
local found = redis.call('HMGET', KEYS[2], 'rate_max', 'rate_ms', 'concurrency')
local rate_max, rate_ms, slots = tonumber(found[1]), tonumber(found[2]), tonumber(found[3])
local most = tonumber(ARGV[3])
local last = last_delivered(stream, group)
if not last then return redis.error_reply('NOGROUP no such group') end

if slots then
  -- The truth is what is still there: ended jobs are deleted, whichever engine ran them.
  local held = redis.call('XPENDING', stream, group)[1]
  local free = slots - math.min(held, redis.call('XLEN', stream))
  if free <= 0 then return { 'slots', 0, last } end
  most = math.min(most, free)
end

-- A bucket that is full at first, and gets `rate_max` tokens per `rate_ms`.
local now, tokens = redis.call('TIME'), nil
local now_ms = now[1] * 1000 + now[2] / 1000
if rate_max then
  local bucket = redis.call('HMGET', limiter, 'tokens', 'ts')
  local since_ms = math.max(0, now_ms - (tonumber(bucket[2]) or now_ms))
  tokens = math.min(rate_max, (tonumber(bucket[1]) or rate_max) + since_ms * rate_max / rate_ms)
  if tokens < 1 then
    local wait_ms = math.ceil((1 - tokens) * rate_ms / rate_max)
    if ARGV[5] == '1' then emit(KEYS[7], ARGV[4], server_now_ms(), 'rate-limited', '', '', 'wait_ms', wait_ms) end
    return { 'rate', wait_ms, last }
  end
  most = math.min(most, math.floor(tokens))
end

local reply = { '', 0, last }
local function read(count)
  local page = redis.call('XREADGROUP', 'GROUP', group, ARGV[2], 'COUNT', count, 'STREAMS', stream, '>')
  for _, entry in ipairs(page and page[1][2] or {}) do reply[#reply + 1] = entry end
end

read(most)
local left = most - (#reply - 3)
if left > 0 and redis.call('EXISTS', KEYS[5]) == 1 and move_up(stream, KEYS[4], KEYS[5], KEYS[6], left) > 0 then read(left) end
local taken = #reply - 3
if tokens then
  redis.call('HSET', limiter, 'tokens', string.format('%.6f', tokens - taken), 'ts', string.format('%.3f', now_ms))
  redis.call('PEXPIRE', limiter, 2 * rate_ms)
end
if taken == 0 then reply[1] = 'empty' end
return reply
