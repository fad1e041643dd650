-- Fetch and lease in one step: there is no moment in which a message is in neither its list nor a lease.
--
-- Also settles the acknowledgements that ride along, renews the lease, moves delayed messages that are due into
-- their lists, and leaves out paused queues. Empty-handed, it reads every key that a new message would change, so
-- that the server tells this connection (CLIENT TRACKING) about the next one: check and arm are one step.
--
-- KEYS  1 leases, 2 this lease's messages, 3 paused queues, 4 idle leases,
--       5 fetched messages, then for each queue: its delayed messages, and its lists, most urgent first
-- ARGV  1 lease id, or '' for a consumer without acknowledgements; 2 lease duration in us; 3 messages wanted
--       4 tag of the first message; 5 is this lease on the idle list (1 or 0); 6 most delayed messages to move a queue
--       7 lists a queue; 8 queues; 9 how many of the queues are leased, the others are popped for good
--       10 number of acknowledged tags; the tags; the names of the queues
-- Returns -1 if the lease is lost (nothing was done), else
--       { us until the next delayed message or -1, idle leases or -1, index in KEYS, message, index, message, ... }
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local is_leased = ARGV[1] ~= ''
local acks = tonumber(ARGV[10])
if is_leased then
  -- First a write that a server at its memory limit allows: it then allows the rest of the script, so that a full
  -- broker can be drained.
  redis.call('HDEL', KEYS[2], '', unpack(ARGV, 11, 10 + acks))
  -- ZADD and not ZSCORE: a key that is read here is a key whose changes wake this connection.
  if not redis.call('ZADD', KEYS[1], 'XX', 'INCR', 0, ARGV[1]) then
    return -1
  end
  redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
end
local left, tag = tonumber(ARGV[3]), tonumber(ARGV[4])
local reply = {-1, -1}
if left == 0 then
  return reply
end
local lists, queues, leased = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local names = 10 + acks
local any_paused = redis.call('EXISTS', KEYS[3]) == 1
for queue = 1, queues do
  local delayed = 6 + (queue - 1) * (lists + 1)
  local before = left
  if not (any_paused and redis.call('HEXISTS', KEYS[3], ARGV[names + queue]) == 1) then
    local due = redis.call('ZRANGEBYSCORE', KEYS[delayed], '-inf', now, 'LIMIT', 0, ARGV[6])
    for _, member in ipairs(due) do
      redis.call('ZREM', KEYS[delayed], member)
      redis.call('LPUSH', KEYS[delayed + lists - tonumber(string.sub(member, 1, 1))], string.sub(member, 3))
    end
    for list = delayed + 1, delayed + lists do
      for _, message in ipairs(redis.call('RPOP', KEYS[list], left) or {}) do
        if queue <= leased then
          redis.call('HSET', KEYS[2], tag, KEYS[list] .. '\n' .. message)
          tag = tag + 1
        end
        reply[#reply + 1] = list
        reply[#reply + 1] = message
        left = left - 1
      end
      if left == 0 then break end
    end
  end
  if left < before then redis.call('HINCRBY', KEYS[5], ARGV[names + queue], before - left) end
  if left == 0 then break end
end
if #reply > 2 then
  if ARGV[5] == '1' then redis.call('LREM', KEYS[4], 1, ARGV[1]) end
  return reply
end
for queue = 1, queues do
  local delayed = 6 + (queue - 1) * (lists + 1)
  local first = redis.call('ZRANGE', KEYS[delayed], 0, 0, 'WITHSCORES')
  if first[2] then
    local wait = math.max(0, tonumber(first[2]) - now)
    if reply[1] == -1 or wait < reply[1] then reply[1] = wait end
  end
  for list = delayed + 1, delayed + lists do
    redis.call('LLEN', KEYS[list])
  end
end
if is_leased and ARGV[5] == '0' then
  reply[2] = redis.call('LPUSH', KEYS[4], ARGV[1])
end
return reply
