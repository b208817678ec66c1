-- Says that a worker is alive: its entry among the workers of the queue, with the server's time. With its first beat, those
-- that have been silent for long are forgotten.
-- KEYS  1 workers
-- ARGV  1 its name; 2 what it says of itself; 3 seconds after which a silent one is forgotten; 4 '1' with its first beat
-- Reply 0
local time = redis.call('TIME')
local now, kept = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
redis.call('EXPIRE', KEYS[1], kept)
if ARGV[4] == '1' then
  local known = redis.call('HGETALL', KEYS[1])
  for i = 1, #known, 2 do
    local seen = tonumber(string.match(known[i + 1], '^(%d+) '))
    if not seen or seen < now - kept * 1000 then redis.call('HDEL', KEYS[1], known[i]) end
  end
end
return 0
