-- Shared: what a job leaves behind that ends without having completed and is no dead letter. Needs emit.

-- The record for those who wait, which a full server loses; the job's id is free again.
local function record_drop(events, max, now, kind, job_id, name, attempt, failure_key, ttl, failure, taken_key)
  redis.pcall('SET', failure_key, failure, 'EX', ttl)
  redis.call('DEL', taken_key)
  emit(events, max, now, kind, job_id, name, 'attempt', attempt)
end
