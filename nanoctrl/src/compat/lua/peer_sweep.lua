-- The end of agents of any scope whose time has run out, and agents that wait to be asked for. ARGV: keep, the time we expect
-- it to be ('0': no agent may end). If the clock jumps, no agent ends. Answers {OK, how many ended, how many were skipped,
-- whether there is more to do at once, {some of those that ended}}.
local RETURNS = 100
local SCOPES_PRUNED, PRUNED, BATCH, TARGETS_MAX = 16, 2, 32, 4096
local may_end = ARGV[2] ~= '0' and math.abs(now - tonumber(ARGV[2])) <= 1000

-- ---- agents that returned ----

-- Those that named it are asked, at most so many; answers how many that was, and whether anything was done.
local function ask_for_returned(member, most)
	local scope, name = two_of(member)
	local n, there = ASKING, scope and redis.call('EXISTS', in_scope(scope, 'agent:' .. name)) == 1
	if there and number(read('SCARD', named_set(scope, name))) > 0 then
		local rest = set_key('ask', scope, name)
		if redis.call('EXISTS', rest) == 0 then
			local r = redis.pcall('SUNIONSTORE', rest, named_set(scope, name))
			if type(r) == 'table' then return n, false end -- where there is no memory, this is for a later sweep
			redis.call('PEXPIRE', rest, WAITING_MS)
		end
		local namers = read('SPOP', rest, math.max(1, math.floor(most / ASKING))) or {}
		for _, who in ipairs(namers) do ask(scope, who, name) end
		n = n + ASKING * #namers
		if #namers > 0 and redis.call('EXISTS', rest) == 1 then return math.max(n, most), true end
	end
	redis.call('ZREM', RETURNED, member)
	return n, true
end

local function ask_for_all(most)
	local returned, done, any = read('ZRANGEBYSCORE', RETURNED, '-inf', text(now), 'LIMIT', 0, RETURNS) or {}, 0, false
	for _, member in ipairs(returned) do
		if done >= most then return done, true end
		local n, did = ask_for_returned(member, most - done)
		done, any = done + n, any or did
	end
	return done, done >= most or #returned == RETURNS and any
end

-- ---- agents whose time is over ----

-- While no agent may end, reading due agents is no work done, and has a bound of its own in all scopes together.
local n_left = 500
local n_ended, some = 0, {}

local function sweep(scope, most)
	local index, done, all = index_key(scope), 0, true
	local due = read('ZRANGEBYSCORE', index, '-inf', text(now), 'LIMIT', 0, may_end and most or math.min(most, n_left)) or {}
	if not may_end then n_left = n_left - #due end
	for _, me in ipairs(due) do
		if done >= most then return done, false end
		local key = in_scope(scope, 'agent:' .. me)
		local left = read('HEXISTS', key, 'addr') == 1 and redis.call('PTTL', key) or -2
		if left == -1 then -- a key without TTL would never end
			redis.call('PEXPIRE', key, AGENT_MS)
			left = AGENT_MS
		end
		if left > 0 then
			ends_in(scope, me, left)
			done = done + TELLING
		elseif may_end then
			local n, ended = forget(scope, me, most - done)
			done, all = done + n, all and ended
			if ended then
				n_ended = n_ended + 1
				if n_ended <= 3 then some[n_ended] = me end
			end
		end
	end
	if redis.call('EXISTS', index) == 0 then redis.call('UNLINK', lives_key(scope)) end
	return done, all and (#due < most or not may_end)
end

-- ---- agents that live on ----

-- Keys that other programs removed from Redis do not stay noted, nor do targets that are gone for good: of some agents, some of
-- each at a time. One sweep reads at most one list of targets.
local listed = false
local function prune(scope, me)
	local owned, targets = owned_set(scope, me), targets_set(scope, me)
	for _, key in ipairs(read('SRANDMEMBER', owned, BATCH) or {}) do
		if redis.call('EXISTS', key) == 0 then redis.call('SREM', owned, key) end
	end
	if listed or number(read('SCARD', targets)) <= TARGETS_MAX then return end
	local wanted = {}
	for _, name in ipairs(targets_in(scope, me)) do wanted[name] = true end
	for _, name in ipairs(redis.call('SRANDMEMBER', targets, BATCH)) do
		if not wanted[name] and redis.call('EXISTS', in_scope(scope, 'agent:' .. name)) == 0 then
			redis.call('SREM', targets, name)
			write('SREM', named_set(scope, name), me)
		end
	end
	listed = true
end

local n_asked, more_to_ask = ask_for_all(MOST)
local _, more_to_end = sweep_scopes('peer', 'nanoctrl:peers:', MOST - n_asked, sweep)
local more = more_to_ask or more_to_end
for _, scope in ipairs(not more and read('SRANDMEMBER', 'nanoctrl:peer_scopes', SCOPES_PRUNED) or {}) do
	for _, me in ipairs(read('ZRANDMEMBER', index_key(scope), PRUNED) or {}) do prune(scope, me) end
end
return { OK, n_ended, skipped, more and 1 or 0, some }
