-- ARGV: keep, scope, ttl, then of each: type, id, whether the index is to learn of it also if it was there (0 or 1), kind,
-- endpoint, metadata, resource, info, the event up to its revision. Answers a word for each.
local scope, ttl = ARGV[2], ARGV[3]

-- Whether the key is an entity; nil when it is something else.
local function is_there(key)
	local there = redis.pcall('HEXISTS', key, 'info')
	if there == 1 then return true end
	if there == 0 and redis.call('EXISTS', key) == 0 then return false end
	if there ~= 0 then check_junk(there.err) end
	return nil
end

local function put(type, id, noting, kind, endpoint, metadata, resource, info, event)
	local key = P .. type .. ':' .. id
	local there = is_there(key)
	if there == nil then return NAME_TAKEN end

	local revision = text(write('INCR', P .. 'nano_meta:' .. type .. '_revision'))
	redis.call('HSET', key, 'entity_type', type, 'entity_id', id, 'kind', kind, 'endpoint', endpoint, 'metadata', metadata,
		'resource', resource, 'info', info)
	redis.call('PEXPIRE', key, ttl)
	if not there or noting == '1' then
		local member = #type .. ':' .. type .. id
		write('ZADD', 'nanoctrl:entities:' .. scope, text(now + tonumber(ttl)), member)
		write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
		write('SADD', 'nanoctrl:entity_scopes', scope)
	end
	redis.call('PUBLISH', P .. 'nano_events:' .. type .. '_update', event .. ',"revision":' .. revision .. ',"timestamp":'
		.. clock[1] .. '}')
	return OK
end

local words = {}
for i = 4, #ARGV, 9 do words[#words + 1] = put(unpack(ARGV, i, i + 8)) end
return { OK, words }
