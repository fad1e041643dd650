-- Publish a message once, however often it is sent: the answer to a publish may be lost with its connection, and
-- the publisher then can't know, and sends it again.
--
-- KEYS  1 the mark of this publish, 2 the list, or the delayed set
-- ARGV  1 how long the mark stays in ms; 2 the message, or the member; 3 due time in us for a delayed message
-- Returns 1, or 0 if the message had arrived before.
if not redis.call('SET', KEYS[1], '', 'NX', 'PX', ARGV[1]) then
  return 0
end
if ARGV[3] then
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
else
  redis.call('LPUSH', KEYS[2], ARGV[2])
end
return 1
