-- Shared: new jobs onto the stream. `max` is where the oldest are trimmed; nil where they are not.

-- The fields of an entry; `headers` and `priority` are nil, or '', where a job has none.
local function fields_of(name, envelope, headers, priority)
  if priority and priority ~= '' then
    local fields = { 'd', envelope, 'p', priority }
    if name ~= '' then fields[#fields + 1], fields[#fields + 2] = 'n', name end
    if headers and headers ~= '' then fields[#fields + 1], fields[#fields + 2] = 'h', headers end
    return unpack(fields)
  end
  if headers and headers ~= '' then
    if name == '' then return 'd', envelope, 'h', headers end
    return 'd', envelope, 'n', name, 'h', headers
  end
  if name == '' then return 'd', envelope end
  return 'd', envelope, 'n', name
end

local function xadd(stream, max, ...)
  if max then return redis.pcall('XADD', stream, 'MAXLEN', '~', max, '*', ...) end
  return redis.pcall('XADD', stream, '*', ...)
end

-- The server's refusal, if it refuses.
local function put(stream, max, name, envelope, headers)
  local reply = xadd(stream, max, fields_of(name, envelope, headers))
  if type(reply) == 'table' then return reply end
end

-- A job under a fence: added once, however often it is sent. Its entry's id, or the server's refusal.
local function put_fenced(stream, lane, number, name, envelope, headers)
  return redis.pcall('XADD', stream, 'IDMP', lane, number, '*', fields_of(name, envelope, headers))
end
