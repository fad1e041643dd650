-- List leases that have expired by the server's clock, the oldest first.
--
-- KEYS  1 leases
-- ARGV  1 how many at most
local time = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', time[1] * 1000000 + time[2], 'LIMIT', 0, ARGV[1])
