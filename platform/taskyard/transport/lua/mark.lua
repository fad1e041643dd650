-- Replace leased messages by the same with a mark, before they are put back; what is not leased any more stays away.
--
-- KEYS  1 this lease's messages
-- ARGV  tag, value, tag, value, ...
-- Returns nothing.
--
-- First a write that a server at its memory limit allows: it then allows the rest.
redis.call('HDEL', KEYS[1], '')
for place = 1, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[place]) == 1 then
    redis.call('HSET', KEYS[1], ARGV[place], ARGV[place + 1])
  end
end
