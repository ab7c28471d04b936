-- ARGV: keep, scope, ttl, then of each: type, id, whether the index is to learn of it also if it was there (0 or 1), kind,
-- endpoint, metadata, resource, info, the event up to the info, which is its last member but for the revision and the
-- time. Answers a word for each.
local scope, ttl = ARGV[2], ARGV[3]

-- Whether the key is an entity; nil when it is something else.
local function is_there(key)
	local there = redis.pcall('HEXISTS', key, 'info')
	if there == 1 then return true end
	if there == 0 and redis.call('EXISTS', key) == 0 then return false end
	if there ~= 0 then check_junk(there.err) end
	return nil
end

local there, wanted, revisions = {}, {}, {}
for i = 4, #ARGV, 9 do
	local type = ARGV[i]
	there[i] = is_there(P .. type .. ':' .. ARGV[i + 1])
	if there[i] ~= nil then wanted[type] = (wanted[type] or 0) + 1 end
end
-- Those of one type are counted together.
for type, n in pairs(wanted) do revisions[type] = write('INCRBY', P .. 'nano_meta:' .. type .. '_revision', n) - n end

local function put(there, type, id, noting, kind, endpoint, metadata, resource, info, event)
	if there == nil then return NAME_TAKEN end
	local key = P .. type .. ':' .. id
	redis.call('HSET', key, 'entity_type', type, 'entity_id', id, 'kind', kind, 'endpoint', endpoint, 'metadata', metadata,
		'resource', resource, 'info', info)
	redis.call('PEXPIRE', key, ttl)
	if not there or noting == '1' then
		local member = #type .. ':' .. type .. id
		write('ZADD', 'nanoctrl:entities:' .. scope, text(now + tonumber(ttl)), member)
		write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
		write('SADD', 'nanoctrl:entity_scopes', scope)
	end
	revisions[type] = revisions[type] + 1
	redis.call('PUBLISH', P .. 'nano_events:' .. type .. '_update', event .. info .. ',"revision":'
		.. text(revisions[type]) .. ',"timestamp":' .. clock[1] .. '}')
	return OK
end

local words = {}
for i = 4, #ARGV, 9 do words[#words + 1] = put(there[i], unpack(ARGV, i, i + 8)) end
return { OK, words }
