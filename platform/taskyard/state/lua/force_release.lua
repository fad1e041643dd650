-- Free a claim, whoever holds it.
--
-- KEYS  1 the claim, 2 the held claims
-- ARGV  1 name among the held
-- Returns { now in us, the fields and values of the claim that was there }
local time = redis.call('TIME')
local reply = {string.format('%.0f', time[1] * 1000000 + time[2]), unpack(redis.call('HGETALL', KEYS[1]))}
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return reply
