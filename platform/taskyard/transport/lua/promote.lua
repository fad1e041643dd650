-- Move the delayed messages of a queue that are due into its lists, as a fetch does, without fetching.
--
-- KEYS  1 the queue's delayed messages, then its lists, most urgent first
-- Returns how many were moved; at most 1000 a call.
local time = redis.call('TIME')
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', time[1] * 1000000 + time[2], 'LIMIT', 0, 1000)
for _, member in ipairs(due) do
  redis.call('ZREM', KEYS[1], member)
  redis.call('LPUSH', KEYS[#KEYS - tonumber(string.sub(member, 1, 1))], string.sub(member, 3))
end
return #due
