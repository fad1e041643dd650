-- Move messages out of a lease into given lists, in a changed form: the delivery count raised, or set aside.
--
-- Each is moved only if the lease still holds it, so that of several movers exactly one succeeds. A lease that has
-- become empty ends.
--
-- KEYS  1 leases, 2 who holds them, 3 this lease's messages, then the destination of each message
-- ARGV  1 lease id, 2 lease duration in us, then tag and message of each, the next to be fetched last
-- Returns how many were moved.
local time = redis.call('TIME')
redis.call('HDEL', KEYS[3], '')
redis.call('ZADD', KEYS[1], 'XX', time[1] * 1000000 + time[2] + ARGV[2], ARGV[1])
local moved = 0
for place = 4, #KEYS do
  local tag = (place - 4) * 2 + 3
  if redis.call('HDEL', KEYS[3], ARGV[tag]) == 1 then
    redis.call('RPUSH', KEYS[place], ARGV[tag + 1])
    moved = moved + 1
  end
end
if redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return moved
