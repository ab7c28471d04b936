-- ARGV: keep, scope, ttl, then of each: type, id, whether the index is to learn of it also if it was there (0 or 1), kind,
-- endpoint, metadata, resource, info, the event up to the info, which is its last member but for the revision and the
-- time. Answers the words of all as one text of digits: to make an array of numbers takes Redis as long as to set a field.
local DONE, TAKEN = '0', '2' -- OK, NAME_TAKEN
local scope, ttl = ARGV[2], ARGV[3]

-- Whether the key is an entity; nil when it is something else.
local function is_there(key)
	local there = redis.pcall('HEXISTS', key, 'info')
	if there == 1 then return true end
	if there == 0 and redis.call('EXISTS', key) == 0 then return false end
	if there ~= 0 then check_junk(there.err) end
	return nil
end

local keys, known, wanted = {}, {}, {}
for i = 4, #ARGV, 9 do
	local type = ARGV[i]
	local key = P .. type .. ':' .. ARGV[i + 1]
	local there = is_there(key)
	keys[#keys + 1], known[#known + 1] = there ~= nil and key, there == true
	if there ~= nil then wanted[type] = (wanted[type] or 0) + 1 end
end
-- Those of one type are counted together.
local revisions, channels = {}, {}
for type, n in pairs(wanted) do
	revisions[type] = write('INCRBY', P .. 'nano_meta:' .. type .. '_revision', n) - n
	channels[type] = P .. 'nano_events:' .. type .. '_update'
end

local function put(key, known, type, id, noting, kind, endpoint, metadata, resource, info, event)
	if not key then return TAKEN end
	redis.call('HSET', key, 'entity_type', type, 'entity_id', id, 'kind', kind, 'endpoint', endpoint, 'metadata', metadata,
		'resource', resource, 'info', info)
	redis.call('PEXPIRE', key, ttl)
	if not known or noting == '1' then
		local member = #type .. ':' .. type .. id
		write('ZADD', 'nanoctrl:entities:' .. scope, text(now + tonumber(ttl)), member)
		write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
		write('SADD', 'nanoctrl:entity_scopes', scope)
	end
	revisions[type] = revisions[type] + 1
	redis.call('PUBLISH', channels[type], event .. info .. ',"revision":' .. string.format('%d', revisions[type])
		.. ',"timestamp":' .. clock[1] .. '}')
	return DONE
end

local words = {}
for i, key in ipairs(keys) do words[i] = put(key, known[i], unpack(ARGV, 9 * i - 5, 9 * i + 3)) end
return { OK, table.concat(words) }
