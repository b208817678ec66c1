-- includes: emit dropped
-- Aborts a delayed job: it leaves the delayed set. One that was promoted or cancelled meanwhile is passed over.
-- KEYS  1 delayed; 2 events; 3 the "taken" key of the job; 4 its failure key; 5 its index key
-- ARGV  1 events maximum; 2 seconds the failure is kept; 3 member; 4 job id; 5 name; 6 runs made so far; 7 failure record
-- Reply 1 if it was there
if redis.call('ZREM', KEYS[1], ARGV[3]) == 0 then return 0 end
redis.call('DEL', KEYS[5])
local now, run = server_now_ms(), tonumber(ARGV[6]) + 1
record_drop(KEYS[2], ARGV[1], now, 'aborted', ARGV[4], ARGV[5], run, KEYS[4], ARGV[2], ARGV[7], KEYS[3])
return 1
