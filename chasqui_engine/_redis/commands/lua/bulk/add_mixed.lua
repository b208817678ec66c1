-- includes: emit put
-- Puts one chunk of a bulk write where its jobs belong, the stream or the delayed set, unless it is there already.
-- KEYS  1 stream; 2 fence; 3 delayed; 4 events; 5 ids of this write (a set); then per job with an id of its own: its
--       "taken" key, its index key
-- ARGV  1 chunk ('' = no fence); 2 digest of its rows; 3 seconds the fence stays; 4 most entries the stream may hold
--       after this; 5 '1' to trim the oldest instead of refusing; 6 seconds an id stays taken after its job was due;
--       7 events maximum; 8 '1' to write each id once in this write, also when it is not taken any more; then per job:
--       name ('' for none), envelope, member ('' = for now), time to run at in ms ('' = none), delay in ms ('' = none),
--       job id, index of its "taken" key ('0' for none)
-- Reply the number added; -1 when the stream is too full; -2 when the chunk was written before; -3 when it was written
--       before with other rows
local stream, fence, delayed, events, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local chunk, max, trim, ttl, events_max = ARGV[1], tonumber(ARGV[4]), ARGV[5] == '1', tonumber(ARGV[6]), ARGV[7]
local by_id = ARGV[8] == '1'
if chunk ~= '' then
  local before = redis.call('HGET', fence, chunk)
  if before then return before == ARGV[2] and -2 or -3 end
end
local now = server_now_ms()
local now_ms = tonumber(now)

local function delay_of(i)
  if ARGV[i + 3] ~= '' then return tonumber(ARGV[i + 3]) - now_ms end
  if ARGV[i + 4] ~= '' then return tonumber(ARGV[i + 4]) end
  return 0
end

local function is_new(i, key, expiry)
  if by_id and redis.call('SADD', ids, ARGV[i + 5]) == 0 then return false end
  return key == 0 or redis.call('SET', KEYS[key], '1', 'NX', 'EX', expiry)
end

local for_now = 0
for i = 9, #ARGV, 7 do
  if delay_of(i) <= 0 then for_now = for_now + 1 end
end
if not trim and for_now > 0 and redis.call('XLEN', stream) + for_now > max then return -1 end

local function put_later(i, delay, index, expiry)
  local reply = redis.pcall('ZADD', delayed, string.format('%.0f', now_ms + delay), ARGV[i + 2])
  if type(reply) == 'table' then return reply end
  if index then redis.call('SET', index, ARGV[i + 2], 'EX', expiry) end
  emit(events, events_max, now, 'delayed', ARGV[i + 5], ARGV[i], 'delay_ms', string.format('%.0f', delay))
end

local added = 0
for i = 9, #ARGV, 7 do
  local delay, key = math.max(0, delay_of(i)), tonumber(ARGV[i + 6])
  local expiry = math.ceil(delay / 1000) + ttl
  if is_new(i, key, expiry) then
    local refused
    if delay > 0 then
      refused = put_later(i, delay, key > 0 and KEYS[key + 1], expiry)
    else
      refused = put(stream, trim and max, ARGV[i], ARGV[i + 1])
    end
    if refused then
      -- Left taken, the id would have the next try passed over.
      if by_id then redis.call('SREM', ids, ARGV[i + 5]) end
      if key > 0 then redis.call('DEL', KEYS[key]) end
      return refused
    end
    added = added + 1
  end
end
if chunk ~= '' then
  redis.call('HSET', fence, chunk, ARGV[2])
  redis.call('EXPIRE', fence, ARGV[3])
end
if by_id then redis.call('EXPIRE', ids, ARGV[3]) end
return added
