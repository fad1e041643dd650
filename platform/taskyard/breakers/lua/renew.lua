-- Prolong the lease of a probe that is still running.
--
-- KEYS  1 the probes of a breaker
-- ARGV  1 now in ms, or '' for the server's clock; 2 token; 3 lease in ms
-- Returns 1, or 0 if its place is free or somebody else's
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ends = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not ends then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
return 1
