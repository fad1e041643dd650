-- Look once more at empty queues, so that from now on the server tells this connection when one changes.
--
-- With CLIENT TRACKING the server remembers the declared keys of a script that reads; looking and arming are one step,
-- so no message can slip in between. Paused queues count as empty, and resuming one changes a declared key.
--
-- KEYS  1 paused queues, then for each queue: its delayed messages, and its lists
-- ARGV  1 lists a queue; the names of the queues
-- Returns -1 if there is something to fetch, -2 if there is nothing, or the us until the next delayed message.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lists, wait = tonumber(ARGV[1]), -2
for queue = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[queue]) == 0 then
    local delayed = 2 + (queue - 2) * (lists + 1)
    for list = delayed + 1, delayed + lists do
      if redis.call('EXISTS', KEYS[list]) == 1 then return -1 end
    end
    local first = redis.call('ZRANGE', KEYS[delayed], 0, 0, 'WITHSCORES')[2]
    if first then
      local left = math.max(0, tonumber(first) - now)
      if wait == -2 or left < wait then wait = left end
    end
  end
end
return wait
