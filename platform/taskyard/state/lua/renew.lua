-- Prolong a held claim, if it is still the owner's.
--
-- KEYS  1 the claim, 2 the held claims
-- ARGV  1 owner; 2 lease in us from now; 3 how long the key outlives the lease in ms; 4 name among the held
-- Returns 1, or 0 if it is not the owner's (nothing was changed)
local claim = redis.call('HMGET', KEYS[1], 'state', 'owner')
if claim[1] ~= 'held' or claim[2] ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
-- First the write that a server at its memory limit allows: it then allows the rest.
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(ARGV[2] / 1000) + ARGV[3]))
local ends = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[2])
redis.call('HSET', KEYS[1], 'ends', ends)
redis.call('ZADD', KEYS[2], ends, ARGV[4])
return 1
