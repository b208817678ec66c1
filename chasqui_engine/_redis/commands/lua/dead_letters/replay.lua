-- includes: put delayed_member priorities
-- Moves dead letters back to the stream; those with a priority beside it. One that another replay took first is passed over.
-- KEYS  1 dead letters; 2 stream; 3 delayed; 4 prio; 5 prio:jobs; 6 prio:state; 7… the failure key of each job that has an id
-- ARGV  per entry: its id in the dead letters, envelope, name, index of its failure key ('0' for none)
-- Reply the number moved
local dlq, stream = KEYS[1], KEYS[2]
local moved = 0

local delayed, prio, jobs, state = KEYS[3], KEYS[4], KEYS[5], KEYS[6]

local function value_of(fields, name)
  for f = 1, #fields, 2 do
    if fields[f] == name then return fields[f + 1] end
  end
end

local function read_priority(fields)
  local priority = tonumber(value_of(fields, 'p') or '0')
  return priority and priority >= 1 and priority <= MOST and math.floor(priority)
end

-- False where the server has no room for that.
local function stage_again(envelope, name, priority)
  local now = redis.call('TIME')
  local wait_ms = tonumber(redis.call('HGET', state, 'longest_wait_ms') or LONGEST_WAIT_MS)
  local due_ms = now[1] * 1000 + math.floor(now[2] / 1000) + wait_ms
  local member = struct.pack('<I4', #name) .. name .. envelope
  return not stage(delayed, prio, jobs, state, id_of(member), member, priority, due_ms)
end

for i = 1, #ARGV, 4 do
  local envelope, name, failure_key = ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local letter = redis.call('XRANGE', dlq, ARGV[i], ARGV[i])[1]
  if letter then
    local headers, priority = value_of(letter[2], 'h'), read_priority(letter[2])
    -- Only the entry has its headers: one with both goes to the stream, behind what waits there.
    if headers or not priority or not stage_again(envelope, name, priority) then
      redis.call('XADD', stream, '*', fields_of(name, envelope, headers, priority))
    end
    redis.call('XDEL', dlq, ARGV[i])
    if failure_key > 0 then redis.call('DEL', KEYS[failure_key]) end
    moved = moved + 1
  end
end
return moved
