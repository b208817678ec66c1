-- Shared: entries of the events stream. A maximum of 0 means that events are off.

local function server_now_ms()
  local now = redis.call('TIME')
  return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
end

-- An event is never worth failing a job for, so a full server only loses the event.
local function emit(events, max, now, kind, job_id, name, ...)
  if max == '0' then return end
  if name == '' then
    redis.pcall('XADD', events, 'MAXLEN', '~', max, '*', 'e', kind, 'id', job_id, 'ts', now, ...)
  else
    redis.pcall('XADD', events, 'MAXLEN', '~', max, '*', 'e', kind, 'id', job_id, 'ts', now, 'n', name, ...)
  end
end

-- For all but the last of many: trimming with each costs a seventh of the event.
local function emit_untrimmed(events, now, kind, job_id, name, ...)
  if name == '' then
    redis.pcall('XADD', events, '*', 'e', kind, 'id', job_id, 'ts', now, ...)
  else
    redis.pcall('XADD', events, '*', 'e', kind, 'id', job_id, 'ts', now, 'n', name, ...)
  end
end

-- Entries leave the stream when their job ends, so an empty stream has nothing waiting and nothing running.
local function emit_if_drained(stream, events, max, now)
  if max ~= '0' and redis.call('XLEN', stream) == 0 then emit(events, max, now, 'drained', '', '') end
end
