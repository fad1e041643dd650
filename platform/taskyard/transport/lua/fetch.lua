-- Fetch and lease in one step: there is no moment in which a message is in neither its list nor a lease.
--
-- Also settles the acknowledgements that ride along, renews the lease, moves delayed messages that are due into
-- their lists, and leaves out paused queues.
--
-- Empty-handed, the caller waits. Of the workers that consume the same queues a few watch: the server tells them of
-- a new message (see arm.lua). The others are parked. A waiting worker that gets messages wakes one or two parked
-- ones, which look in turn: so a message wakes a handful of workers, and a flood wakes all.
--
-- KEYS  none: of a script that reads anything, the server watches all declared keys for the caller (CLIENT TRACKING)
-- ARGV  1 leases, 2 this lease's messages, 3 paused queues, 4 fetched messages, 5 watching leases, 6 parked leases,
--       7 what precedes a lease id in the key that wakes it,
--       8 lease id, or '' for a consumer without acknowledgements; 9 lease duration in us; 10 messages wanted
--       11 tag of the first message; 12 caller was 0 busy, 1 watching, 2 parked
--       13 most delayed messages to move a queue; 14 how long a watch holds in us; 15 how many may watch
--       16 how many of the queues are leased, the others are popped for good; 17 lists a queue; 18 queues
--       19 number of acknowledged tags; the tags;
--       then for each queue: its name, its delayed messages, and its lists, most urgent first;
--       the last one: the version of the cancelled tasks, which tells the caller whether to read them
-- Returns -1 if the lease is lost (nothing was done), else
--       { caller now 0 1 2, that version or '', number of queue, message, number of queue, message, ... }
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local messages, watching, parked = ARGV[2], ARGV[5], ARGV[6]
local id, was = ARGV[8], ARGV[12]
local acks = tonumber(ARGV[19])
if id ~= '' then
  -- First a write that a server at its memory limit allows: it then allows the rest of the script, so that a full
  -- broker can be drained.
  redis.call('HDEL', messages, '', unpack(ARGV, 20, 19 + acks))
  if not redis.call('ZSCORE', ARGV[1], id) then
    return -1
  end
  redis.call('ZADD', ARGV[1], now + ARGV[9], id)
end
local left, tag = tonumber(ARGV[10]), tonumber(ARGV[11])
local reply = {0, redis.call('GET', ARGV[#ARGV]) or ''}
if left == 0 then
  return reply
end
if was == '2' then
  redis.call('LREM', parked, 1, id)
  redis.call('DEL', ARGV[7] .. id)
end
local leased, lists = tonumber(ARGV[16]), tonumber(ARGV[17])
local any_paused = redis.call('EXISTS', ARGV[3]) == 1
for queue = 1, tonumber(ARGV[18]) do
  local name = 20 + acks + (queue - 1) * (lists + 2)
  local delayed, before = ARGV[name + 1], left
  if not (any_paused and redis.call('HEXISTS', ARGV[3], ARGV[name]) == 1) then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, ARGV[13])) do
      redis.call('ZREM', delayed, member)
      redis.call('LPUSH', ARGV[name + 1 + lists - tonumber(string.sub(member, 1, 1))], string.sub(member, 3))
    end
    for list = name + 2, name + 1 + lists do
      for _, message in ipairs(redis.call('RPOP', ARGV[list], left) or {}) do
        if queue <= leased then
          redis.call('HSET', messages, tag, ARGV[list] .. '\n' .. message)
          tag = tag + 1
        end
        reply[#reply + 1] = queue
        reply[#reply + 1] = message
        left = left - 1
      end
      if left == 0 then break end
    end
  end
  if left < before then redis.call('HINCRBY', ARGV[4], ARGV[name], before - left) end
  if left == 0 then break end
end
if #reply > 2 then
  if was ~= '0' and id ~= '' then
    redis.call('ZREM', watching, id)
    -- One takes this worker's place; two if there is likely more to do.
    for _ = 1, left == 0 and 2 or 1 do
      local other = redis.call('LPOP', parked)
      if other then redis.call('SET', ARGV[7] .. other, '1', 'PX', 10000) end
    end
  end
  return reply
end
if id ~= '' then
  redis.call('ZREMRANGEBYSCORE', watching, '-inf', now)
  if was ~= '1' and redis.call('ZCARD', watching) >= tonumber(ARGV[15]) then
    redis.call('LPUSH', parked, id)
    redis.call('LTRIM', parked, 0, 9999)
    redis.call('PEXPIRE', parked, 60000)
    reply[1] = 2
    return reply
  end
  redis.call('ZADD', watching, now + ARGV[14], id)
  redis.call('PEXPIRE', watching, 60000)
end
reply[1] = 1
return reply
