-- Take a claim that is free or whose lease has ended; by the same owner again, prolong it.
--
-- A fence is the time of the grant in us, and at least one more than the last: so it grows even where the server has
-- lost its data, or its clock was set back.
--
-- KEYS  1 the claim, 2 the last fence
-- ARGV  1 owner; 2 lease in us; 3 holder (JSON); 4 how long the key outlives the lease in ms
-- Returns { granted 1 or 0, now in us, the fields and values of the claim that is there now }
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- A write that a server at its memory limit allows: it then allows the rest, so that a full broker can be drained.
redis.call('HDEL', KEYS[1], '')
local claim = redis.call('HMGET', KEYS[1], 'state', 'owner', 'ends')
local state, ends = claim[1], tonumber(claim[3] or 0)
local is_own = state == 'held' and claim[2] == ARGV[1]
if not is_own and (state == 'held' or state == 'done') and ends > now then
  redis.call('HINCRBY', KEYS[1], 'duplicates', 1)
  return {0, string.format('%.0f', now), unpack(redis.call('HGETALL', KEYS[1]))}
end
if not is_own then
  local fence = string.format('%.0f', math.max(now, tonumber(redis.call('GET', KEYS[2]) or 0) + 1))
  redis.call('SET', KEYS[2], fence)
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'state', 'held', 'owner', ARGV[1], 'fence', fence,
    'since', string.format('%.0f', now), 'duplicates', 0)
end
redis.call('HSET', KEYS[1], 'holder', ARGV[3], 'ends', string.format('%.0f', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(ARGV[2] / 1000) + ARGV[4]))
return {1, string.format('%.0f', now), unpack(redis.call('HGETALL', KEYS[1]))}
