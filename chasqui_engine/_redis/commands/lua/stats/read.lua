-- The counts of a queue, all at one moment.
-- KEYS  1 stream; 2 delayed; 3 dead letters; 4 repeat; 5 paused; 6 prio
-- ARGV  1 group
-- Reply { now in ms, entries, pending, id of the first entry that waits ('' for none), delayed, score of the first ('' for
--       none), dead, repeatables, score of the first ('' for none), 1 if paused, staged for their
--       priority (these are delayed as well) }
local stream, delayed, group = KEYS[1], KEYS[2], ARGV[1]
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local entries = redis.call('XLEN', stream)
local pending = redis.pcall('XPENDING', stream, group)
local held, after = 0, '-'
if not pending.err then
  held = pending[1]
  for _, found in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local facts = {}
    for i = 1, #found, 2 do facts[found[i]] = found[i + 1] end
    if facts['name'] == group then after = '(' .. facts['last-delivered-id'] end
  end
end
local oldest = redis.call('XRANGE', stream, after, '+', 'COUNT', 1)[1]
local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
local first_repeatable = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
return {
  now_ms, entries, held, oldest and oldest[1] or '', redis.call('ZCARD', delayed), first[2] or '',
  redis.call('XLEN', KEYS[3]), redis.call('ZCARD', KEYS[4]), first_repeatable[2] or '', redis.call('EXISTS', KEYS[5]),
  redis.call('ZCOUNT', KEYS[6], '(0', '+inf'),
}
