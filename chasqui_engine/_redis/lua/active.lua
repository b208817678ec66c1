-- uses: events
-- Says that jobs have started.
-- KEYS  1 events
-- ARGV  1 events maximum; then per job: job id, name, attempt
local now = server_now_ms()
for i = 2, #ARGV, 3 do
  emit(KEYS[1], ARGV[1], now, 'active', ARGV[i], ARGV[i + 1], 'attempt', ARGV[i + 2])
end
return 0
