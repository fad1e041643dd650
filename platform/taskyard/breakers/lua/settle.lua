-- Count how a run has ended, and change the breaker's state where that is the consequence.
--
-- KEYS  1 the breaker, 2 its probes, 3 all breakers
-- ARGV  1 now in ms, or '' for the server's clock; 2 name; 3 token of a probe, or '' for another run
--       4 epoch in which the run began; 5 'failure', 'success' or 'nothing'; 6 what failed
--       7 failure rate; 8 minimum of calls; 9 length of one of the window's parts in ms; 10 parts
--       11 open in ms; 12 longest open in ms; 13 probes at a time; 14 recovery in ms
--       15 how long the breaker is remembered in ms
-- Returns nothing, or { state before, state after, calls, failures, ms until the next probe }
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local parts, recovery = tonumber(ARGV[10]), tonumber(ARGV[14])
redis.call('HDEL', KEYS[1], '')
local known = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'return')
local state = known[1] or 'closed'

local function remember(ms)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms))
  redis.call('ZADD', KEYS[3], now + ms, ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
end

local function change(after, calls, failures)
  for part = 0, parts - 1 do redis.call('HDEL', KEYS[1], 'w' .. part) end
  redis.call('HDEL', KEYS[1], 'succeeded', 'start')
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'state', after, 'since', now, 'epoch', now)
  local ms = 0
  if after == 'open' then
    ms = math.min(tonumber(ARGV[12]), ARGV[11] * 2 ^ (redis.call('HINCRBY', KEYS[1], 'openings', 1) - 1))
    redis.call('HSET', KEYS[1], 'until', now + ms, 'return', math.max(tonumber(known[3] or 0), now + ms),
      'calls', calls, 'failures', failures, 'error', ARGV[6])
    if state == 'closed' then redis.call('HSET', KEYS[1], 'parked', 0) end
  elseif after == 'recovering' then
    ms = recovery
    redis.call('HSET', KEYS[1], 'start', now, 'until', now + ms)
  else
    redis.call('HDEL', KEYS[1], 'openings')
  end
  remember(ms + ARGV[15])
  return {state, after, calls, failures, string.format('%.0f', ms)}
end

if ARGV[3] ~= '' then
  -- A place that its lease has freed may be somebody else's by now, and counts for nothing.
  if redis.call('ZREM', KEYS[2], ARGV[3]) == 0 or state ~= 'half_open' or ARGV[5] == 'nothing' then return {} end
  if ARGV[5] == 'failure' then return change('open', 1, 1) end
  local succeeded = redis.call('HINCRBY', KEYS[1], 'succeeded', 1)
  if succeeded < tonumber(ARGV[13]) then return {} end
  return change(recovery > 0 and 'recovering' or 'closed', succeeded, 0)
end

-- What began before the breaker opened says nothing about how things are now.
if ARGV[5] == 'nothing' or ARGV[4] ~= (known[2] or '0') then return {} end
if state ~= 'closed' and state ~= 'recovering' then return {} end

local slot = math.floor(now / ARGV[9])
local field = 'w' .. slot % parts
local part, calls, failures = string.match(redis.call('HGET', KEYS[1], field) or '', '^(%d+) (%d+) (%d+)$')
if tonumber(part) ~= slot then
  calls, failures = 0, 0
  redis.call('HSETNX', KEYS[1], 'since', now)
  redis.call('HSET', KEYS[1], 'part', ARGV[9])
  remember(tonumber(ARGV[15]))
end
local failed = ARGV[5] == 'failure' and 1 or 0
redis.call('HSET', KEYS[1], field, string.format('%.0f %.0f %.0f', slot, calls + 1, failures + failed))
if failed == 0 then return {} end
redis.call('HSET', KEYS[1], 'error', ARGV[6])

local minimum = tonumber(ARGV[8])
-- Few runs are let through while it recovers: it has to be judged by fewer.
if state == 'recovering' then minimum = math.ceil(minimum / 4) end
calls, failures = 0, 0
for number = 0, parts - 1 do
  local value = redis.call('HGET', KEYS[1], 'w' .. number)
  if value then
    local at, all, bad = string.match(value, '^(%d+) (%d+) (%d+)$')
    if tonumber(at) > slot - parts and tonumber(at) <= slot then
      calls, failures = calls + all, failures + bad
    end
  end
end
if calls >= minimum and failures / calls >= tonumber(ARGV[7]) then return change('open', calls, failures) end
return {}
