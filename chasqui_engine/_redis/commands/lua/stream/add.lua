-- includes: put headers
-- Puts jobs on the stream, all or none. An id that is taken already is passed over.
-- KEYS  1 stream; then as the jobs say: the "taken" key of each that has an id of its own, the headers key of each that has
--       headers; last, with headers, `uses`
-- ARGV  1 most entries the stream may hold after this; 2 '1' to trim the oldest instead of refusing; 3 seconds an id stays taken;
--       4, 5 the fence of this call: lane ('' for none) and number; 6 seconds that headers are kept ('' = no job has any); then per
--       job: name ('' for none), envelope, index of its "taken" key ('0' for none), and where jobs have headers: headers ('' for none),
--       index of their key
-- Reply {the number added, or -1 when the stream is too full for all of them; how many more would fit, 0 when trimming}
local stream, max, trim, ttl = KEYS[1], ARGV[1], ARGV[2] == '1', ARGV[3]
local headers_ttl, first = tonumber(ARGV[6]), 7
local step = headers_ttl and 5 or 3

local function headers_of(i)
  return headers_ttl and ARGV[i + 3]
end

-- Ids that are taken need no room.
local function count_new()
  local count, seen = 0, {}
  for i = first, #ARGV, step do
    local key = KEYS[tonumber(ARGV[i + 2])]
    if not key then
      count = count + 1
    elseif not seen[key] and redis.call('EXISTS', key) == 0 then
      seen[key] = true
      count = count + 1
    end
  end
  return count
end

local function count_without_id()
  local count = 0
  for i = first, #ARGV, step do
    if ARGV[i + 2] == '0' then count = count + 1 end
  end
  return count
end

-- The first job without an id of its own goes under the fence. Returns what put does, its entry, and whether that is an old one:
-- then this call is sent again, and ran before.
local fenced = ARGV[4] ~= ''
local function put_first(name, envelope, headers)
  local before = redis.call('XLEN', stream)
  local entry = put_fenced(stream, ARGV[4], ARGV[5], name, envelope, headers)
  if type(entry) == 'table' then return entry end
  fenced = false
  return nil, entry, redis.call('XLEN', stream) == before
end

local function ran_before_though_full()
  for i = first, #ARGV, step do
    if ARGV[i + 2] == '0' then
      local _, entry, old = put_first(ARGV[i], ARGV[i + 1], headers_of(i))
      if entry and not old then redis.call('XDEL', stream, entry) end
      return old
    end
  end
end

local room = 0
if not trim then
  room = tonumber(max) - redis.call('XLEN', stream)
  if (#ARGV - first + 1) / step > room then
    local new = count_new()
    if new > 0 and new > room then
      if fenced and ran_before_though_full() then return { count_without_id(), 0 } end
      return { -1, room }
    end
  end
end
local added = 0
for i = first, #ARGV, step do
  local key = KEYS[tonumber(ARGV[i + 2])]
  if not key or redis.call('SET', key, '1', 'NX', 'EX', ttl) then
    local refused, _, old
    if fenced and not key then
      refused, _, old = put_first(ARGV[i], ARGV[i + 1], headers_of(i))
      if old then return { count_without_id(), 0 } end
    else
      refused = put(stream, trim and max, ARGV[i], ARGV[i + 1], headers_of(i))
    end
    if refused then
      -- Left taken, the id would have the next try passed over.
      if key then redis.call('DEL', key) end
      return refused
    end
    if headers_ttl and ARGV[i + 3] ~= '' then
      keep_headers(KEYS[#KEYS], KEYS[tonumber(ARGV[i + 4])], ARGV[i + 3], headers_ttl)
    end
    added = added + 1
  end
end
return { added, trim and 0 or room - added }
