-- Fires a repeatable spec and sets its next time, unless another scheduler did so first.
-- KEYS  1 repeat; 2 the spec's hash; 3 stream
-- ARGV  1 spec key; 2 the fire time it was read with; 3 next fire time ('' = it has ended); 4 job name;
--       then an envelope per fire
-- Reply the number fired; -1 when the spec had moved on
local repeats, spec, stream, name = KEYS[1], KEYS[2], KEYS[3], ARGV[4]
local at = redis.call('ZSCORE', repeats, ARGV[1])
if not at or tonumber(at) ~= tonumber(ARGV[2]) then return -1 end
local fired = #ARGV - 4
for i = 5, #ARGV do
  if name == '' then
    redis.call('XADD', stream, '*', 'd', ARGV[i])
  else
    redis.call('XADD', stream, '*', 'd', ARGV[i], 'n', name)
  end
end
if ARGV[3] == '' then
  redis.call('ZREM', repeats, ARGV[1])
  redis.call('DEL', spec)
else
  redis.call('ZADD', repeats, ARGV[3], ARGV[1])
  -- A counter that is no number starts over; left to fail, it would have the same fire made again and again.
  if fired > 0 and type(redis.pcall('HINCRBY', spec, 'fired', fired)) == 'table' then
    redis.pcall('HSET', spec, 'fired', fired)
  end
end
return fired
