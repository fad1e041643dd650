-- Count the leased messages by the list they came from.
--
-- KEYS  the messages of each lease
-- Returns list, count, list, count, ...
local counts, reply = {}, {}
for _, key in ipairs(KEYS) do
  for _, value in ipairs(redis.call('HVALS', key)) do
    local list = string.sub(value, 1, string.find(value, '\n', 1, true) - 1)
    counts[list] = (counts[list] or 0) + 1
  end
end
for list, count in pairs(counts) do
  reply[#reply + 1] = list
  reply[#reply + 1] = count
end
return reply
