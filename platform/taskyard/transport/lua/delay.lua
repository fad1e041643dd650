-- Move fetched messages that are not yet due out of the lease into the delayed set of their queue.
--
-- KEYS  1 this lease's messages, then the delayed set of each message
-- ARGV  tag, due time in us since the epoch, and member ("<priority>\n<message>") of each
-- Returns how many were moved.
local moved = 0
redis.call('HDEL', KEYS[1], '')
for place = 2, #KEYS do
  local at = (place - 2) * 3 + 1
  if redis.call('HDEL', KEYS[1], ARGV[at]) == 1 then
    redis.call('ZADD', KEYS[place], ARGV[at + 1], ARGV[at + 2])
    moved = moved + 1
  end
end
return moved
