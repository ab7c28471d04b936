-- Entities whose time has run out are reported once and forgotten; those that another server renewed are noted. ARGV: keep.
-- Answers {OK, how many ended, how many were skipped, whether there is more to do at once, {some of those that ended}}.
local MOST = 200 -- that end, or are noted
local n_ended, some = 0, {}

local function remove(scope, member, type, id)
	local kinds = 'nanoctrl:kinds:' .. scope
	redis.call('ZREM', 'nanoctrl:entities:' .. scope, member)
	write('ZREM', 'nanoctrl:types:' .. scope, member)
	if type then
		n_ended = n_ended + 1
		if n_ended <= 3 then some[n_ended] = type .. ':' .. id end
		local kind = cjson.encode(read('HGET', kinds, member) or '')
		local revision = text(number(write('INCR', in_scope(scope, 'nano_meta:' .. type .. '_revision'))))
		redis.call('PUBLISH', in_scope(scope, 'nano_events:' .. type .. '_update'), '{"entity_id":' .. cjson.encode(id)
			.. ',"entity_type":' .. cjson.encode(type) .. ',"event_type":"REMOVE","kind":' .. kind .. ',"revision":' .. revision
			.. ',"timestamp":"' .. clock[1] .. '"}')
	end
	write('HDEL', kinds, member)
end

local function sweep(scope, most)
	local index = 'nanoctrl:entities:' .. scope
	local due = read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, most) or {}
	for _, member in ipairs(due) do
		local type, id = two_of(member)
		local key = type and in_scope(scope, type .. ':' .. id)
		local left = key and read('HEXISTS', key, 'info') == 1 and redis.call('PTTL', key) or -2
		if left > 0 then
			redis.call('ZADD', index, text(now + left), member)
			note_kind(scope, member, key)
		elseif left == -1 then -- a key without TTL would never end
			redis.call('PEXPIRE', key, 60000)
			redis.call('ZADD', index, text(now + 60000), member)
		else
			remove(scope, member, type, id)
		end
	end
	return #due, #due < most
end

local _, more = sweep_scopes('entity', 'nanoctrl:entities:', MOST, sweep)
return { OK, n_ended, skipped, more and 1 or 0, some }
