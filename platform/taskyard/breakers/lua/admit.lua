-- Ask whether a run may begin: yes, yes as a probe, or come back later.
--
-- What has to wait gets a moment of its own to come back. The moments are as far apart as the starts will be while the
-- flow recovers, and at most so many fall into a second: so a large backlog neither comes back at once nor asks often.
--
-- KEYS  1 the breaker, 2 its probes, 3 all breakers
-- ARGV  1 now in ms, or '' for the server's clock; 2 name; 3 token of the run, for a probe; 4 probes at a time
--       5 lease of a probe in ms; 6 recovery in ms; 7 most returns a second; 8 wait in ms while it is forced open
--       9 how long the breaker is remembered in ms
-- Returns { 'go', 'probe' or 'wait'; epoch; ms to wait, or that the state before has lasted;
--           state before and after, or two empty texts }
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- A write that a server at its memory limit allows: it then allows the rest, so that a full broker can be drained.
redis.call('HDEL', KEYS[1], '')
local known = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'since', 'until', 'return', 'start', 'succeeded')
local state, epoch, since = known[1] or 'closed', known[2] or '0', tonumber(known[3] or 0)
local reply = {'go', epoch, '0', '', ''}
if state == 'closed' then return reply end

local recovery = tonumber(ARGV[6])
-- In this time the number of starts a second doubles.
local doubling = math.max(1, recovery / 10)

local function changed(after)
  reply[3], reply[4], reply[5] = string.format('%.0f', now - since), state, after
  redis.call('HSET', KEYS[1], 'state', after, 'since', now)
  redis.call('PEXPIRE', KEYS[1], ARGV[9])
  redis.call('ZADD', KEYS[3], now + ARGV[9], ARGV[2])
  state = after
end

local function wait(earliest, origin)
  local back = math.max(tonumber(known[5] or 0), earliest)
  local most = tonumber(ARGV[7])
  -- What was opened by hand stays so for a while.
  if state == 'forced_open' then most = most / 4 end
  local pace = math.min(most, 2 ^ ((back - origin) / doubling))
  redis.call('HSET', KEYS[1], 'return', back + 1000 / pace)
  redis.call('HINCRBY', KEYS[1], 'parked', 1)
  reply[1], reply[3] = 'wait', string.format('%.0f', back - now)
  return reply
end

if state == 'forced_open' then return wait(now + ARGV[8], 0) end

local probe_at = tonumber(known[4] or 0)
if state == 'open' then
  if now < probe_at then return wait(probe_at, probe_at) end
  changed('half_open')
  redis.call('HSET', KEYS[1], 'succeeded', 0)
  redis.call('DEL', KEYS[2])
  known[7] = 0
end

if state == 'half_open' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) + (known[7] or 0) < tonumber(ARGV[4]) then
    redis.call('ZADD', KEYS[2], now + ARGV[5], ARGV[3])
    redis.call('PEXPIRE', KEYS[2], ARGV[9])
    reply[1] = 'probe'
    return reply
  end
  return wait(now + math.min(5000, doubling), probe_at)
end

-- It recovers.
if now - since >= recovery then
  changed('closed')
  redis.call('HDEL', KEYS[1], 'openings', 'start')
  return reply
end
local start = math.max(tonumber(known[6] or 0), now)
-- Runs do not come evenly; who comes a little early may go.
if start - now <= doubling / 10 then
  redis.call('HSET', KEYS[1], 'start', start + 1000 / 2 ^ ((now - since) / doubling))
  return reply
end
return wait(math.max(start, now + 100), since)
