-- includes: delivered
-- What there is to do for a consumer, all at one moment.
-- KEYS  1 stream; 2 delayed; 3 repeat; 4 prio
-- ARGV  1 group; 2 consumer
-- Reply { number above 0 if a job waits, 1 if the consumer has one, 1 if a delayed one is due, 1 if a repeatable is }
local stream, group = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local last = last_delivered(stream, group)
local has = last and #redis.call('XPENDING', stream, group, '-', '+', 1, ARGV[2]) or 0
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local staged = #redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', '+inf', 'LIMIT', 0, 1)
return {
  #redis.call('XRANGE', stream, last and '(' .. last or '-', '+', 'COUNT', 1) + staged, has,
  first and tonumber(first) <= now_ms and 1 or 0,
  #redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now_ms, 'LIMIT', 0, 1),
}
