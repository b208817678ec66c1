-- includes: ownership
-- Says how often entries have been given out, and that they are still being worked on; never takes one back.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; then per entry: entry id, count
-- Reply the entry ids that are not ours any more
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local ids = {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local lost = {}
for n = 1, #ids do
  if mine[ids[n]] == true then
    redis.call('XCLAIM', stream, group, consumer, 0, ids[n], 'RETRYCOUNT', ARGV[2 + 2 * n], 'JUSTID')
  else
    lost[#lost + 1] = ids[n]
  end
end
return lost
