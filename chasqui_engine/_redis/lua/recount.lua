-- uses: ownership
-- Says how often entries have been given out, and since when nothing was heard of them; never takes one back.
-- KEYS  1 stream
-- ARGV  1 group; 2 consumer; 3 the silence in ms (0: they are being worked on); then per entry: entry id, count
-- Reply the entry ids that are not ours any more
local stream, group, consumer, silence = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ids = {}
for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local mine = still_mine(stream, group, consumer, ids)
local lost = {}
for n = 1, #ids do
  if mine[ids[n]] == true then
    local count = ARGV[3 + 2 * n]
    redis.call('XCLAIM', stream, group, consumer, 0, ids[n], 'IDLE', silence, 'RETRYCOUNT', count, 'JUSTID')
  else
    lost[#lost + 1] = ids[n]
  end
end
return lost
