-- Shared: marks of entries whose jobs are to be aborted, each with the time after which it means nothing. Workers look at them.

local MOST_MARKS = 100000

-- Forgets what is out of time, and the oldest of too many; the key goes with its last mark.
local function tidy_marks(aborts, now)
  redis.call('ZREMRANGEBYSCORE', aborts, '-inf', now)
  redis.call('ZREMRANGEBYRANK', aborts, 0, -MOST_MARKS - 1)
  local last = redis.call('ZRANGE', aborts, -1, -1, 'WITHSCORES')[2]
  if last then redis.call('PEXPIREAT', aborts, last) end
end

-- The entries that are marked, each with its time; nothing is asked of a queue that has no marks.
local function marked_among(aborts, ids)
  local marked = {}
  if redis.call('EXISTS', aborts) == 0 then return marked end
  for i = 1, #ids do
    marked[ids[i]] = redis.call('ZSCORE', aborts, ids[i]) or nil
  end
  return marked
end
