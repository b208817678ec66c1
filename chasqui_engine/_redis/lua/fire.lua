-- Fires a repeatable spec and sets its next time, unless another scheduler did so first.
-- KEYS  1 repeat; 2 the spec's hash; 3 stream
-- ARGV  1 spec key; 2 the fire time it was read with; 3 next fire time ('' = it has ended); 4 job name;
--       then an envelope per fire
-- Reply the number fired; -1 when the spec had moved on
local repeats, spec, stream, name = KEYS[1], KEYS[2], KEYS[3], ARGV[4]
local at = redis.call('ZSCORE', repeats, ARGV[1])
if not at or tonumber(at) ~= tonumber(ARGV[2]) then return -1 end
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
  if #ARGV > 4 then redis.call('HINCRBY', spec, 'fired', #ARGV - 4) end
  redis.call('ZADD', repeats, ARGV[3], ARGV[1])
end
return #ARGV - 4
