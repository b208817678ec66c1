-- includes: delayed_member
-- What is due in the delayed set by the server's clock, the set's size and first time, and whether jobs may have headers.
-- KEYS  1 delayed; 2 uses
-- ARGV  1 how many at most; 2 how many bytes at most
-- Reply { now in ms, members in all, score of the first (or ''), 1 if there may be more, 1 if jobs may have headers, then
--       the id of each that is due ('' where there is none) }
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local reply = { now_ms, redis.call('ZCARD', KEYS[1]), first[2] or '', 0, redis.call('EXISTS', KEYS[2]) }
local more = visit_due(KEYS[1], now_ms, tonumber(ARGV[1]), tonumber(ARGV[2]), true, function(member)
  reply[#reply + 1] = id_of(member)
end)
if more then reply[4] = 1 end
return reply
