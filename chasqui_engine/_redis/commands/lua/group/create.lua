-- Makes the group, and the stream, if they are not there. A script, so that a full server lets workers in to drain it.
-- KEYS  1 stream
-- ARGV  1 group
-- Reply 1 if it had to be made; 0 if it was there
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then return 1 end
if string.find(made.err, 'BUSYGROUP', 1, true) then return 0 end
return made
