-- Set a register. Setting the same value again only remembers it for longer: the answer may get lost, and the writer
-- asks again.
--
-- KEYS  1 the register
-- ARGV  1 value; 2 how long it is remembered in ms
-- Returns the value before this one, or false
local register = redis.call('HMGET', KEYS[1], 'value', 'before')
local before = register[1]
if before == ARGV[1] then
  before = register[2]
elseif before then
  redis.call('HSET', KEYS[1], 'value', ARGV[1], 'before', before)
else
  redis.call('HSET', KEYS[1], 'value', ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return before
