-- Forget a register, if it still holds the value.
--
-- KEYS  1 the register
-- ARGV  1 value
-- Returns 1, or 0 if it holds something else
if redis.call('HGET', KEYS[1], 'value') ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
