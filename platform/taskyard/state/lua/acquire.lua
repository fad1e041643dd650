-- Take a claim that is free or whose lease has ended; by the same owner again, prolong it.
--
-- A fence is the time of the grant in us, and at least one more than the last: so it grows even where the server has
-- lost its data, or its clock was set back.
--
-- In each case the first write is one that a server at its memory limit allows. It then allows the rest, so that a
-- full broker can be drained.
--
-- KEYS  1 the claim, 2 the last fence, 3 the held claims
-- ARGV  1 owner; 2 lease in us; 3 holder (JSON); 4 how long the key outlives the lease in ms; 5 name among the held
-- Returns { 1, now in us, fence, when it was taken in us, duplicates } if it is granted,
--      or { 0, now in us, the fields and values of the claim in the way }
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text, ends = string.format('%.0f', now), string.format('%.0f', now + ARGV[2])
local lives = string.format('%.0f', math.ceil(ARGV[2] / 1000) + ARGV[4])
local claim = redis.call('HMGET', KEYS[1], 'state', 'owner', 'ends', 'fence', 'since', 'duplicates')
local state = claim[1]
if state == 'held' and claim[2] == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], lives)
  redis.call('HSET', KEYS[1], 'holder', ARGV[3], 'ends', ends)
  redis.call('ZADD', KEYS[3], ends, ARGV[5])
  return {1, now_text, claim[4], claim[5], claim[6]}
end
if state and state ~= 'free' and tonumber(claim[3]) > now then
  redis.call('HDEL', KEYS[1], '')
  redis.call('HINCRBY', KEYS[1], 'duplicates', 1)
  return {0, now_text, unpack(redis.call('HGETALL', KEYS[1]))}
end
redis.call('DEL', KEYS[1])
local fence = string.format('%.0f', math.max(now, tonumber(redis.call('GET', KEYS[2]) or 0) + 1))
redis.call('SET', KEYS[2], fence)
redis.call('HSET', KEYS[1], 'state', 'held', 'owner', ARGV[1], 'fence', fence, 'holder', ARGV[3],
  'since', now_text, 'ends', ends, 'duplicates', 0)
redis.call('PEXPIRE', KEYS[1], lives)
redis.call('ZADD', KEYS[3], ends, ARGV[5])
-- What its owner neither finished nor gave back leaves the list with its key.
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - ARGV[4] * 1000))
return {1, now_text, fence, now_text, '0'}
