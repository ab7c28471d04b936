-- Entities whose time has run out are told of once and forgotten; those that another server renewed are noted.
-- ARGV: keep, '', '', portion. Answers {OK, '', how many were skipped, whether there is more to do at once}.
local SCOPES = 256 -- looked at by one sweep, by chance where there are more
local MOST = 200 -- that end, or are noted
local done, more = 0, 0

local function sweep(scope)
	local index = 'nanoctrl:entities:' .. scope
	local kinds = 'nanoctrl:kinds:' .. scope
	local prefix = scope == '' and '' or scope .. ':'
	local due = read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, ARGV[4]) or {}
	if #due == tonumber(ARGV[4]) then more = 1 end
	for _, member in ipairs(due) do
		if done >= MOST then
			more = 1
			break
		end
		done = done + 1
		local type, id = two_of(member)
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

for _, scope in ipairs(read('SRANDMEMBER', 'nanoctrl:entity_scopes', SCOPES) or {}) do
	if done >= MOST then
		more = 1
		break
	end
	sweep(scope)
end
return { OK, '', skipped, more }
