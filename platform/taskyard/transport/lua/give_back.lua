-- Put leased messages back into the lists they came from, unchanged: they were not run, or are to run again.
--
-- KEYS  1 leases, 2 who holds them, 3 this lease's messages
-- ARGV  1 lease id, 2 where: RPUSH is the front of a list, LPUSH its end; 3 end the lease (1 or 0)
--       4 number of acknowledged tags; the tags; then the tags to put back, or none for all
-- Returns how many were put back.
local acks = tonumber(ARGV[4])
redis.call('HDEL', KEYS[3], '', unpack(ARGV, 5, 4 + acks))
local tags = {}
for place = 5 + acks, #ARGV do
  tags[#tags + 1] = ARGV[place]
end
if #tags == 0 then
  tags = redis.call('HKEYS', KEYS[3])
end
-- To the front the newest first, so that the oldest is the next to be fetched.
local to_front = ARGV[2] == 'RPUSH'
table.sort(tags, function(a, b)
  if to_front then return tonumber(a) > tonumber(b) end
  return tonumber(a) < tonumber(b)
end)
local moved = 0
for _, tag in ipairs(tags) do
  local value = redis.call('HGET', KEYS[3], tag)
  if value then
    local line = string.find(value, '\n', 1, true)
    redis.call('HDEL', KEYS[3], tag)
    redis.call(ARGV[2], string.sub(value, 1, line - 1), string.sub(value, line + 1))
    moved = moved + 1
  end
end
if ARGV[3] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return moved
