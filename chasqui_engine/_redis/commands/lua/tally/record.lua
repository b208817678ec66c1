-- Adds to the counts of a minute and of its hour; notes the depth of the queue once a minute, and an hour's greatest.
-- KEYS  1 counts by the minute; 2 counts by the hour; 3 stream; 4 delayed
-- ARGV  1 minute; 2 hour; 3 seconds to keep the first; 4 and the second; 5 most fields of each; 6 group;
--       then pairs: kind and name (c: completed, f: failed, d: dead) or bucket (t:); number
local minute, hour, most = ARGV[1] .. ':', ARGV[2] .. ':', tonumber(ARGV[5])

local function add(key, prefix, ttl)
  local full = redis.call('HLEN', key) >= most
  for i = 7, #ARGV, 2 do
    local field = ARGV[i]
    -- Names are the users': the one of too many counts among the others.
    if full and string.sub(field, 1, 2) ~= 't:' then field = string.sub(field, 1, 2) .. '*' end
    redis.call('HINCRBY', key, prefix .. field, ARGV[i + 1])
  end
  redis.call('EXPIRE', key, ttl)
end

if not redis.call('HMGET', KEYS[1], minute .. 'depth')[1] then
  local pending = redis.pcall('XPENDING', KEYS[3], ARGV[6])
  local entries, held = redis.call('XLEN', KEYS[3]), pending.err and 0 or pending[1]
  local waiting, active = math.max(0, entries - held), math.min(entries, held)
  local depth = waiting .. ',' .. active .. ',' .. redis.call('ZCARD', KEYS[4])
  redis.call('HSET', KEYS[1], minute .. 'depth', depth)
  local greatest = redis.call('HMGET', KEYS[2], hour .. 'depth')[1]
  if not greatest or tonumber(string.match(greatest, '^%d+')) < waiting then
    redis.call('HSET', KEYS[2], hour .. 'depth', depth)
  end
end
add(KEYS[1], minute, ARGV[3])
add(KEYS[2], hour, ARGV[4])
