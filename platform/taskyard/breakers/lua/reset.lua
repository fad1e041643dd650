-- Close a breaker and forget what it has counted, whatever its state.
--
-- KEYS  1 the breaker, 2 its probes, 3 all breakers
-- ARGV  1 name
-- Returns the state before, or false if nothing was known of it
local before = redis.call('HGET', KEYS[1], 'state')
if redis.call('EXISTS', KEYS[1]) == 1 then before = before or 'closed' end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return before
