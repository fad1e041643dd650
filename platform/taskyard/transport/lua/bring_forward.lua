-- Move a delayed message into a list now, in another form; it is the next one to be fetched.
--
-- KEYS  1 delayed messages, 2 list
-- ARGV  1 the member as it is among the delayed messages, 2 the message
-- Returns 1, or 0 if it is not there any more
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('RPUSH', KEYS[2], ARGV[2])
return 1
