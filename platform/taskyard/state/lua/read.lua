-- Look at claims, without counting as a duplicate.
--
-- KEYS  the claims
-- ARGV  none
-- Returns { now in us, for each claim the list of its fields and values }
local time = redis.call('TIME')
local reply = {string.format('%.0f', time[1] * 1000000 + time[2])}
for place, key in ipairs(KEYS) do
  reply[place + 1] = redis.call('HGETALL', key)
end
return reply
