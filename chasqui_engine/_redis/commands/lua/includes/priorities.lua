-- Shared: jobs with a priority, which wait beside the stream. `prio` (job id → rank) has their order; `jobs` (job id → member)
-- leads to the delayed set, where each is due when it has waited too long: so it comes too where nobody knows of priorities.
-- A rank above 0 is the priority times LANE and the number of its arrival. One below 0 is minus the priority of a job that is
-- delayed in its own right. Needs delayed_member and put.
local LANE = 4294967296
local MOST = 2097151
local LONGEST_WAIT_MS = '60000'

local function rank_of(state, priority)
  return string.format('%.0f', priority * LANE + redis.call('HINCRBY', state, 'arrived', 1) % LANE)
end

-- What a full server has refused is not there; the reply is the refusal.
local function stage(delayed, prio, jobs, state, job_id, member, priority, due_ms)
  local refused = redis.pcall('ZADD', delayed, string.format('%.0f', due_ms), member)
  if type(refused) == 'table' then return refused end
  redis.call('ZADD', prio, rank_of(state, priority), job_id)
  redis.call('HSET', jobs, job_id, member)
end

-- For a job that is delayed: it is staged when it is due.
local function park(prio, jobs, job_id, member, priority)
  redis.call('ZADD', prio, -priority, job_id)
  redis.call('HSET', jobs, job_id, member)
end

local function unstage(prio, jobs, job_id)
  redis.call('ZREM', prio, job_id)
  redis.call('HDEL', jobs, job_id)
end

-- The rank of a delayed member; nil where it has none.
local function rank_in(prio, jobs, job_id, member)
  local rank = redis.call('ZSCORE', prio, job_id)
  if rank and redis.call('HGET', jobs, job_id) == member then return tonumber(rank) end
end

local function priority_in(rank)
  return math.floor(rank / LANE)
end

-- Headers stay under their key: workers read it.
local function put_member(stream, member, priority)
  local at = name_end(member)
  redis.call('XADD', stream, '*', fields_of(string.sub(member, 5, at), string.sub(member, at + 1), nil, priority))
end

-- Moves the first staged jobs onto the stream, at most so many. One that another promoter was first to move is forgotten.
local function move_up(stream, delayed, prio, jobs, most)
  local moved = 0
  while moved < most do
    local page = redis.call('ZRANGEBYSCORE', prio, LANE, '+inf', 'WITHSCORES', 'LIMIT', 0, most - moved)
    if #page == 0 then break end
    for i = 1, #page, 2 do
      local job_id = page[i]
      local member = redis.call('HGET', jobs, job_id)
      if member and redis.call('ZSCORE', delayed, member) then
        put_member(stream, member, priority_in(tonumber(page[i + 1])))
        redis.call('ZREM', delayed, member)
        moved = moved + 1
      end
      unstage(prio, jobs, job_id)
    end
  end
  return moved
end

-- Forgets some of those that a promoter of ChasquiMQ has moved: where only its workers run, nobody else does.
local function sweep(delayed, prio, jobs, looked_at)
  for _, job_id in ipairs(redis.call('ZRANDMEMBER', prio, looked_at)) do
    local member = redis.call('HGET', jobs, job_id)
    if not member or not redis.call('ZSCORE', delayed, member) then unstage(prio, jobs, job_id) end
  end
end
