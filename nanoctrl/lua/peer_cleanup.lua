-- The end of agents. ARGV: keep, scope, agent; or keep, '', '', how many, the time we expect it to be ('0': no agent may end):
-- of any scope, whose time has run out; and who waits to be asked for. A clock that strays ends nobody.
-- Answers {OK, '', how many were skipped, whether there is more to do at once}.
local PRUNED, PORTION, TARGETS_MAX = 2, 32, 4096
local SCOPES, SCOPES_PRUNED = 256, 16 -- looked at by one sweep, by chance where there are more
local MOST = 500 -- keys that go, and agents that are told or asked
local done, more = 0, 0
local may_end = ARGV[5] and ARGV[5] ~= '0' and math.abs(now - tonumber(ARGV[5])) <= 1000

-- What others removed from Redis does not stay noted with an agent that lives on, nor does every target that went for
-- good: some agents, and some of each, at a time.
local function prune(prefix, scope, me)
	local owned, targets = owned_set(scope, me), targets_set(scope, me)
	for _, key in ipairs(read('SRANDMEMBER', owned, PORTION) or {}) do
		if redis.call('EXISTS', key) == 0 then redis.call('SREM', owned, key) end
	end
	if number(read('SCARD', targets)) <= TARGETS_MAX then return end
	local wanted = {}
	for _, name in ipairs(targets_in(prefix, me)) do wanted[name] = true end
	for _, name in ipairs(redis.call('SRANDMEMBER', targets, PORTION)) do
		if not wanted[name] and redis.call('EXISTS', prefix .. 'agent:' .. name) == 0 then
			redis.call('SREM', targets, name)
			write('SREM', named_set(scope, name), me)
		end
	end
end

local function sweep(scope, pruned)
	local index, prefix = index_key(scope), scope == '' and '' or scope .. ':'
	local due = read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, ARGV[4]) or {}
	if may_end and #due == tonumber(ARGV[4]) then more = 1 end
	for _, me in ipairs(due) do
		if done >= MOST then
			more = 1
			break
		end
		local key = prefix .. 'agent:' .. me
		local left = read('HGET', key, 'addr') and redis.call('PTTL', key) or -2
		if left == -1 then -- nobody would ever end it
			redis.call('PEXPIRE', key, AGENT_MS)
			left = AGENT_MS
		end
		if left > 0 then
			ends_in(scope, me, left)
		elseif may_end then
			local n, all = forget(prefix, scope, me, MOST - done)
			done = done + n
			if not all then more = 1 end
		end
	end
	for _, me in ipairs(pruned and read('ZRANDMEMBER', index, PRUNED) or {}) do prune(prefix, scope, me) end
	if number(read('ZCARD', index)) == 0 then
		redis.call('SREM', 'nanoctrl:peer_scopes', scope)
		redis.call('UNLINK', lives_key(scope))
	end
end

local function ask_for_returned(member)
	local scope, name = two_of(member)
	redis.call('ZREM', RETURNED, member)
	if not scope then return end
	local prefix = scope == '' and '' or scope .. ':'
	done = done + 1
	if redis.call('EXISTS', prefix .. 'agent:' .. name) == 1 then done = done + ask_namers(prefix, scope, name) end
end

if ARGV[4] then
	local returned = read('ZRANGEBYSCORE', RETURNED, '-inf', text(now), 'LIMIT', 0, ARGV[4]) or {}
	if #returned == tonumber(ARGV[4]) then more = 1 end
	for _, member in ipairs(returned) do
		if done >= MOST then
			more = 1
			break
		end
		ask_for_returned(member)
	end
	for i, scope in ipairs(read('SRANDMEMBER', 'nanoctrl:peer_scopes', SCOPES) or {}) do
		if done >= MOST then
			more = 1
			break
		end
		sweep(scope, i <= SCOPES_PRUNED)
	end
else
	local _, all = forget(P, ARGV[2], ARGV[3], MOST)
	more = all and 0 or 1
end
return { OK, '', skipped, more }
