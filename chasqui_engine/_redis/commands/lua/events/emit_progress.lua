-- includes: emit
-- Says how far jobs are.
-- KEYS  1 events
-- ARGV  1 events maximum; then per job: job id, name, progress
local now = server_now_ms()
local last = #ARGV - 2
for i = 2, last - 3, 3 do
  emit_untrimmed(KEYS[1], now, 'progress', ARGV[i], ARGV[i + 1], 'progress', ARGV[i + 2])
end
emit(KEYS[1], ARGV[1], now, 'progress', ARGV[last], ARGV[last + 1], 'progress', ARGV[last + 2])
return 0
