-- The end of agents: everything of one goes, and whoever has to do with it is told.
-- ARGV: keep, scope, agent; or keep, '', '', how many: of any scope, whose time has run out.
local function forget(prefix, scope, me)
	local named = 'nanoctrl:named:' .. #scope .. ':' .. scope .. me
	local owned = 'nanoctrl:owned:' .. #scope .. ':' .. scope .. me
	local peers = {}
	local ok, spec = pcall(cjson.decode, read('GET', prefix .. 'spec:topology:' .. me) or '')
	if ok and type(spec) == 'table' and type(spec.target_peers) == 'table' then
		for _, name in ipairs(spec.target_peers) do
			if type(name) == 'string' then peers[name] = true end
		end
	end
	for _, name in ipairs(read('SMEMBERS', named) or {}) do peers[name] = true end
	peers[me] = nil

	for _, key in ipairs(read('SMEMBERS', owned) or {}) do redis.call('UNLINK', key) end
	redis.call('UNLINK', prefix .. 'agent:' .. me, prefix .. 'spec:topology:' .. me, prefix .. 'stream:' .. me,
		prefix .. 'inbox:' .. me, named, owned)
	if scope == '' then redis.call('UNLINK', ':inbox:' .. me) end
	write('ZREM', 'nanoctrl:peers:' .. scope, me)

	local word = '{"peer":' .. cjson.encode(me) .. ',"type":"cleanup"}'
	for name in pairs(peers) do
		write('LPUSH', prefix .. 'inbox:' .. name, word)
		-- Agents without a scope listen here.
		if scope == '' then write('LPUSH', ':inbox:' .. name, word) end
	end
end

local function sweep(scope)
	local index, prefix = 'nanoctrl:peers:' .. scope, scope == '' and '' or scope .. ':'
	for _, me in ipairs(read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, ARGV[4]) or {}) do
		local key = prefix .. 'agent:' .. me
		local left = read('HGET', key, 'addr') and redis.call('PTTL', key) or -2
		if left == -1 then -- nobody would ever end it
			redis.call('PEXPIRE', key, 60000)
			left = 60000
		end
		if left > 0 then
			redis.call('ZADD', index, text(now + left), me)
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
