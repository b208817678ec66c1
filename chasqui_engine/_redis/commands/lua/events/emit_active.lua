-- includes: emit
-- Says that jobs have started.
-- KEYS  1 events
-- ARGV  1 events maximum; then per job: job id, name, attempt, when its entry was added to the stream (epoch ms)
local now = server_now_ms()
local last = #ARGV - 3
for i = 2, last - 4, 4 do
  emit_untrimmed(KEYS[1], now, 'active', ARGV[i], ARGV[i + 1], 'attempt', ARGV[i + 2], 'enqueued_at_ms', ARGV[i + 3])
end
emit(KEYS[1], ARGV[1], now, 'active', ARGV[last], ARGV[last + 1], 'attempt', ARGV[last + 2], 'enqueued_at_ms', ARGV[last + 3])
return 0
