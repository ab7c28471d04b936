-- Entities whose time has run out are told of once and forgotten; those that another server renewed are noted.
-- ARGV: keep, portion
local function member_of(member)
	local len, rest = string.match(member, '^(%d+):(.*)$')
	if not len then return nil end
	return string.sub(rest, 1, tonumber(len)), string.sub(rest, tonumber(len) + 1)
end

local function sweep(scope)
	local index = 'nanoctrl:entities:' .. scope
	local kinds = 'nanoctrl:kinds:' .. scope
	local prefix = scope == '' and '' or scope .. ':'
	for _, member in ipairs(read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, ARGV[2]) or {}) do
		local type, id = member_of(member)
		local key = type and prefix .. type .. ':' .. id
		local left = key and read('HGET', key, 'info') and redis.call('PTTL', key) or -2
		if left > 0 then
			redis.call('ZADD', index, text(now + left), member)
			note_kind(scope, member, key)
		elseif left == -1 then -- nobody would ever end it
			redis.call('PEXPIRE', key, 60000)
			redis.call('ZADD', index, text(now + 60000), member)
		else
			redis.call('ZREM', index, member)
			write('ZREM', 'nanoctrl:types:' .. scope, member)
			if type then
				local kind = cjson.encode(read('HGET', kinds, member) or '')
				local revision = text(write('INCR', prefix .. 'nano_meta:' .. type .. '_revision'))
				redis.call('PUBLISH', prefix .. 'nano_events:' .. type .. '_update', '{"entity_id":'
					.. cjson.encode(id) .. ',"entity_type":' .. cjson.encode(type)
					.. ',"event_type":"REMOVE","kind":' .. kind .. ',"revision":' .. revision
					.. ',"timestamp":"' .. clock[1] .. '"}')
			end
			write('HDEL', kinds, member)
		end
	end
	if number(read('ZCARD', index)) == 0 then redis.call('SREM', 'nanoctrl:entity_scopes', scope) end
end

for _, scope in ipairs(read('SRANDMEMBER', 'nanoctrl:entity_scopes', 16) or {}) do sweep(scope) end
return { OK }
