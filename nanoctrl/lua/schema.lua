-- Whether a nanoctrl that writes the form ARGV[2] may use what is in Redis. KEYS[1] says it: two numbers, the first and
-- the last form that may. Where it is not there, the form of who asks and the next one: two releases share one Redis.
local form = tonumber(ARGV[2])
local stored = redis.call('GET', KEYS[1])
if not stored then return redis.call('SET', KEYS[1], string.format('%d %d', form, form + 1)) end

local first, last = string.match(stored, '^(%d+) (%d+)$')
if not first then return KEYS[1] .. ' is not two numbers' end
if form < tonumber(first) or form > tonumber(last) then
	return string.format('its data are for nanoctrl of the forms %s to %s, and this one has form %d', first, last, form)
end
return { ok = 'OK' }
