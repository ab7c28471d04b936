-- Whether a nanoctrl that writes the form ARGV[2] may use the data in Redis. KEYS[1] has two numbers, the first and the last
-- form that may. Where the key does not exist, it gets the form of the caller and the next one: two successive releases can
-- share one Redis.
local form = tonumber(ARGV[2])
local stored = redis.call('GET', KEYS[1])
if not stored then
	redis.call('SET', KEYS[1], string.format('%d %d', form, form + 1))
else
	local first, last = string.match(stored, '^(%d+) (%d+)$')
	if not first then return KEYS[1] .. ' is not two numbers' end
	if form < tonumber(first) or form > tonumber(last) then
		return string.format('its data are for nanoctrl of the forms %s to %s, and this one has form %d', first, last, form)
	end
end

-- KEYS[2] is the life of Redis that was seen last, and this one is ARGV[3] ('' when it does not say). Another one may not
-- have all that was acknowledged, since its log ends early or a replica lagged, unless the last one had all of that on its
-- disk, and so has this one (ARGV[4]). All epochs are over then.
local run = redis.pcall('HMGET', KEYS[2], 'id', 'last', 'keeps')
if run.err then return KEYS[2] .. ' is no hash: ' .. run.err end
if ARGV[3] == '' then return { ok = 'OK' } end
if run[1] == ARGV[3] then
	-- Once set otherwise it may lack something, however it is set when it ends.
	if run[3] == '1' and ARGV[4] ~= '1' then redis.call('HSET', KEYS[2], 'keeps', '0') end
	return { ok = 'OK' }
end

redis.call('HSET', KEYS[2], 'id', ARGV[3], 'keeps', ARGV[4])
if ARGV[4] == '1' and run[3] == '1' then return { ok = 'OK' } end

local clock = redis.call('TIME')
local last = string.match(run[2] or '', '^%d+$') and tonumber(run[2]) or 0
if last >= 2 ^ 53 - 1 then last = 0 end
local since = string.format('%.0f', math.max(clock[1] * 1000000 + clock[2], last + 1))
redis.call('HSET', KEYS[2], 'since', since, 'last', since)
return { ok = 'OK' }
