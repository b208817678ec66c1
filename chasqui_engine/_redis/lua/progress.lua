-- uses: events
-- Says how far jobs are.
-- KEYS  1 events
-- ARGV  1 events maximum; then per job: job id, name, progress
local now = server_now_ms()
for i = 2, #ARGV, 3 do
  emit(KEYS[1], ARGV[1], now, 'progress', ARGV[i], ARGV[i + 1], 'progress', ARGV[i + 2])
end
return 0
