-- Turn a held claim into one that is done, with its result, if it is still the owner's; done by the same owner, again.
--
-- KEYS  1 the claim, 2 the held claims
-- ARGV  1 owner; 2 result (JSON); 3 how long it is remembered in us; 4 name among the held
-- Returns 1, or 0 if it is not the owner's (nothing was changed)
local claim = redis.call('HMGET', KEYS[1], 'state', 'owner')
if (claim[1] ~= 'held' and claim[1] ~= 'done') or claim[2] ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
-- First the write that a server at its memory limit allows: it then allows the rest.
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(ARGV[3] / 1000)))
redis.call('HSET', KEYS[1], 'state', 'done', 'result', ARGV[2],
  'ends', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[3]))
redis.call('ZREM', KEYS[2], ARGV[4])
return 1
