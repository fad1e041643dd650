-- Open a breaker by hand, until it is reset.
--
-- KEYS  1 the breaker, 2 its probes, 3 all breakers
-- ARGV  1 now in ms, or '' for the server's clock; 2 name; 3 why; 4 who
-- Returns the state before
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local before = redis.call('HGET', KEYS[1], 'state') or 'closed'
redis.call('HSET', KEYS[1], 'state', 'forced_open', 'since', now, 'epoch', now, 'why', ARGV[3], 'who', ARGV[4])
if before ~= 'forced_open' then redis.call('HSET', KEYS[1], 'parked', 0) end
redis.call('HDEL', KEYS[1], 'until', 'succeeded', 'start', 'openings', 'calls', 'failures')
redis.call('DEL', KEYS[2])
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[3], '+inf', ARGV[2])
return before
