-- Takes a leader's lock, or keeps it.
-- KEYS  1 lock
-- ARGV  1 holder; 2 time to live in ms
-- Reply 1 if the holder leads now; 0 if another does
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0
