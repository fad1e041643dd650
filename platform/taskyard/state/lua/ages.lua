-- Look since when claims are there, without reading their results.
--
-- KEYS  the claims
-- ARGV  1 'held' or 'done' for those only, or ''
-- Returns for each claim when it was taken in us, or '' if it is free or another one
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}
for place, key in ipairs(KEYS) do
  local claim = redis.call('HMGET', key, 'state', 'ends', 'since')
  local is_known = (claim[1] == 'held' or claim[1] == 'done') and tonumber(claim[2]) > now
  reply[place] = is_known and (ARGV[1] == '' or ARGV[1] == claim[1]) and claim[3] or ''
end
return reply
