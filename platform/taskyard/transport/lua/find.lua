-- Look for a text in the messages of one key, some of them.
--
-- KEYS  1 a list, a sorted set (delayed messages) or a hash (messages of a lease)
-- ARGV  1 text, 2 where to begin, 3 how many to look at; of a hash always all
-- Returns { how many were looked at, message, message, ... }: those in which the text is, somewhere
local kind = redis.call('TYPE', KEYS[1]).ok
local entries = {}
if kind == 'list' then
  entries = redis.call('LRANGE', KEYS[1], ARGV[2], ARGV[2] + ARGV[3] - 1)
elseif kind == 'zset' then
  entries = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[2] + ARGV[3] - 1)
elseif kind == 'hash' then
  entries = redis.call('HVALS', KEYS[1])
end
local found = { #entries }
for _, entry in ipairs(entries) do
  if string.find(entry, ARGV[1], 1, true) then found[#found + 1] = entry end
end
return found
