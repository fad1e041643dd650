-- Note that a task is not to start any more, under a version that every worker compares.
--
-- The version is the server's time, and rises with each cancellation. What has been noted for long enough is
-- forgotten.
--
-- KEYS  1 cancelled tasks, 2 notes, 3 version, 4 answer of the worker that holds the task
-- ARGV  1 task id, 2 note, 3 how long it holds in us
-- Returns the note of an earlier cancellation, which stands, or false
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local version = math.max(now, (tonumber(redis.call('GET', KEYS[3])) or 0) + 1)
local earlier = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[1], version, ARGV[1])
redis.call('SET', KEYS[3], string.format('%.0f', version))
redis.call('DEL', KEYS[4])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3], 'LIMIT', 0, 1000)
if #old > 0 then
  redis.call('ZREM', KEYS[1], unpack(old))
  redis.call('HDEL', KEYS[2], unpack(old))
end
return earlier
