-- Appends lines to the logs of jobs, each of which lives on for as long as a result would.
-- KEYS  one log for each job
-- ARGV  1 lines that a log keeps, about; 2 seconds it lives; then per line: the number (from 1) of its log, the line
-- Reply 0
local max, ttl = ARGV[1], ARGV[2]
for i = 3, #ARGV, 2 do
  redis.call('XADD', KEYS[tonumber(ARGV[i])], 'MAXLEN', '~', max, '*', 'line', ARGV[i + 1])
end
for i = 1, #KEYS do redis.call('EXPIRE', KEYS[i], ttl) end
return 0
