-- What is due in the delayed set by the server's clock, and how the set stands.
-- KEYS  1 delayed
-- ARGV  1 how many at most
-- Reply { now in ms, members in all, score of the first (or ''), { due members … } }
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[1])
return { now_ms, redis.call('ZCARD', KEYS[1]), first[2] or '', members }
