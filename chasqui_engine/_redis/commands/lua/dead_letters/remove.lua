-- Deletes dead letters, each with the record of why its job died.
-- KEYS  1 dead letters; then per entry the failure key of its job
-- ARGV  entry ids
-- Reply per entry: 1 if it was deleted; 0 if it was not there any more
local reply = {}
for i = 1, #ARGV do
  reply[i] = redis.call('XDEL', KEYS[1], ARGV[i])
  if reply[i] == 1 then redis.call('DEL', KEYS[1 + i]) end
end
return reply
