-- The end of agents. ARGV: keep, scope, agent; or keep, '', '', how many: of any scope, whose time has run out.
local function sweep(scope)
	local index, prefix = index_key(scope), scope == '' and '' or scope .. ':'
	for _, me in ipairs(read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, ARGV[4]) or {}) do
		local key = prefix .. 'agent:' .. me
		local left = read('HGET', key, 'addr') and redis.call('PTTL', key) or -2
		if left == -1 then -- nobody would ever end it
			redis.call('PEXPIRE', key, AGENT_MS)
			left = AGENT_MS
		end
		if left > 0 then
			ends_in(scope, me, left)
		else
			forget(prefix, scope, me)
		end
	end
	if number(read('ZCARD', index)) == 0 then redis.call('SREM', 'nanoctrl:peer_scopes', scope) end
end

if ARGV[4] then
	for _, scope in ipairs(read('SRANDMEMBER', 'nanoctrl:peer_scopes', 16) or {}) do sweep(scope) end
else
	forget(P, ARGV[2], ARGV[3])
end
return { OK }
