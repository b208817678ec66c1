-- includes: delivered emit dropped marks
-- Aborts a job that is on the stream: deletes one that waits, and marks one that a worker was given, for that worker to stop.
-- Called again, it says what became of a marked one.
-- KEYS  1 stream; 2 events; 3 aborts; 4 the "taken" key of the job; 5 its failure key
-- ARGV  1 group; 2 events maximum; 3 seconds the failure is kept; 4 ms a mark is kept; 5 ms it is kept when its entry is gone;
--       6 entry id; 7 job id; 8 name; 9 runs made so far; 10 failure record
-- Reply 1 deleted; -1 marked, and still there; 0 the entry and its mark are gone: never there, or aborted by its worker;
--       -2 the entry is gone, and its mark is not: it has ended in another way, or moved on
local stream, events, aborts, id = KEYS[1], KEYS[2], KEYS[3], ARGV[6]
local now = server_now_ms()
if #redis.call('XRANGE', stream, id, id) == 0 then
  if not redis.call('ZSCORE', aborts, id) then return 0 end
  -- Not deleted: that would say to another who waits that the job was aborted.
  redis.call('ZADD', aborts, 'LT', tonumber(now) + tonumber(ARGV[5]), id)
  tidy_marks(aborts, now)
  return -2
end
if given_out_by(stream, ARGV[1])(id) then
  if not redis.call('ZSCORE', aborts, id) then
    redis.call('ZADD', aborts, tonumber(now) + tonumber(ARGV[4]), id)
    tidy_marks(aborts, now)
  end
  return -1
end
redis.call('XDEL', stream, id)
record_drop(events, ARGV[2], now, 'aborted', ARGV[7], ARGV[8], tonumber(ARGV[9]) + 1, KEYS[5], ARGV[3], ARGV[10], KEYS[4])
emit_if_drained(stream, events, ARGV[2], now)
return 1
