-- Free a held claim, if it is still the owner's. For a while it is known who did: the answer may get lost, and the
-- owner asks again.
--
-- KEYS  1 the claim, 2 the held claims
-- ARGV  1 owner; 2 how long that is known in ms; 3 name among the held
-- Returns 1, or 0 if it is not the owner's (nothing was changed)
local claim = redis.call('HMGET', KEYS[1], 'state', 'owner')
if (claim[1] ~= 'held' and claim[1] ~= 'free') or claim[2] ~= ARGV[1] then
  return 0
end
-- First the write that a server at its memory limit allows: it then allows the rest.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'free')
redis.call('ZREM', KEYS[2], ARGV[3])
return 1
