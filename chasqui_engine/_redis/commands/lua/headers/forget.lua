-- Deletes the headers of jobs that have ended; those of a new job under the same id stay.
-- KEYS  the headers key of each job
-- ARGV  the headers of each job
-- Reply 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[i] then redis.call('DEL', KEYS[i]) end
end
return 0
