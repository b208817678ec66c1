-- Shared: new jobs onto the stream. `max` is where the oldest are trimmed; nil where they are not.

local function xadd(stream, max, ...)
  if max then return redis.pcall('XADD', stream, 'MAXLEN', '~', max, '*', ...) end
  return redis.pcall('XADD', stream, '*', ...)
end

-- The server's refusal, if it refuses.
local function put(stream, max, name, envelope)
  local reply
  if name == '' then
    reply = xadd(stream, max, 'd', envelope)
  else
    reply = xadd(stream, max, 'd', envelope, 'n', name)
  end
  if type(reply) == 'table' then return reply end
end

-- A job under a fence: added once, however often it is sent. Its entry's id, or the server's refusal.
local function put_fenced(stream, lane, number, name, envelope)
  if name == '' then return redis.pcall('XADD', stream, 'IDMP', lane, number, '*', 'd', envelope) end
  return redis.pcall('XADD', stream, 'IDMP', lane, number, '*', 'd', envelope, 'n', name)
end
