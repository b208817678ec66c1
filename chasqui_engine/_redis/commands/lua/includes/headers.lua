-- Shared: the headers of jobs, for when their entries have none: delayed members have none, nor has what ChasquiMQ moves.

-- `uses` says to workers and promoters that there are such jobs, for as long as the headers of one are kept.
local function keep_headers(uses, key, headers, ttl)
  redis.call('SET', key, headers, 'EX', ttl)
  if redis.call('TTL', uses) < ttl then redis.call('SET', uses, '1', 'EX', ttl) end
end
