-- Reads repeatable specs, as far as they fit into one reply.
-- KEYS  the hash of each spec
-- ARGV  1 most bytes of one; 2 most bytes of all
-- Reply per spec, up to the last that fits: its size (-1 when there is none), spec ('' when it is too large), how often
--       it has fired ('' for a count that is none)
local most, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = {}
for i = 1, #KEYS do
  -- Under the key may be something that is no hash.
  local size = redis.pcall('HSTRLEN', KEYS[i], 'spec')
  local spec, fired = '', ''
  if type(size) == 'table' or size == 0 then
    size = -1
  elseif size <= most then
    if size > left and i > 1 then return reply end
    left = left - size
    local found = redis.call('HMGET', KEYS[i], 'spec', 'fired')
    spec, fired = found[1], found[2] or ''
    -- The server counts in 64 bits; what is longer was not counted by it.
    if #fired > 19 then fired = '' end
  end
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = size, spec, fired
end
return reply
