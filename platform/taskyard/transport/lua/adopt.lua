-- Continue a lease under a new id. Whatever is still under way for the old id, a late fetch or acknowledgement from
-- a cut connection or a thawed process, then finds no lease and does nothing: that is the fence.
--
-- A process adopts its own lease on each new connection; a reaper adopts one that has expired. It is all or nothing.
--
-- KEYS  1 leases, 2 who holds them, 3 messages under the new id,
--       then the messages under each old id
-- ARGV  1 new id, 2 lease duration in us, 3 only if expired (1 or 0), 4 who holds it (JSON), then the old ids
-- Returns the tags and values of all messages of the lease, or -1 if it has not expired.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[3] == '1' then
  local expires = redis.call('ZSCORE', KEYS[1], ARGV[5])
  if not expires or tonumber(expires) > now then
    return -1
  end
end
redis.call('ZREM', KEYS[1], '', unpack(ARGV, 5))
for place = 5, #ARGV do
  local messages = KEYS[place - 1]
  redis.call('HDEL', KEYS[2], ARGV[place])
  if redis.call('EXISTS', messages) == 1 then
    redis.call('RENAME', messages, KEYS[3])
  end
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return redis.call('HGETALL', KEYS[3])
