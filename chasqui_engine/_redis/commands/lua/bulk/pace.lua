-- Books room for rows under a rate that all tasks of a write share.
-- KEYS  1 the time until which the rate is booked, in ms
-- ARGV  1 rows; 2 rows per second
-- Reply how long to wait, in ms, before writing them
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + now[2] / 1000
local booked = tonumber(redis.call('GET', KEYS[1]) or '0')
local starts = math.max(now_ms, booked)
local ends = starts + tonumber(ARGV[1]) * 1000 / tonumber(ARGV[2])
redis.call('SET', KEYS[1], string.format('%.3f', ends), 'PX', math.ceil(ends - now_ms) + 60000)
return math.ceil(starts - now_ms)
