-- What the scripts of DLSlime's agents share; it stands between lib.lua and each peer_*.lua.
local AGENT_MS = 60000        -- the life of what others left without an end
local TARGETS_BYTES = 4194304 -- of a list of targets; a longer one is none
local WAITING_MS = 3600000    -- how long what is there for an agent that never came is kept

local function index_key(scope) return 'nanoctrl:peers:' .. scope end
local function set_key(kind, scope, name) return 'nanoctrl:' .. kind .. ':' .. #scope .. ':' .. scope .. name end

-- What an agent owns, whom it ever named as a target, and who named it. The last outlives the agent: it is what
-- the namers want, and goes with them.
local function owned_set(scope, name) return set_key('owned', scope, name) end
local function targets_set(scope, name) return set_key('targets', scope, name) end
local function named_set(scope, name) return set_key('named', scope, name) end

-- The agent ends then, unless it is renewed.
local function ends_in(scope, name, ms)
	write('ZADD', index_key(scope), text(now + ms), name)
	write('SADD', 'nanoctrl:peer_scopes', scope)
end

-- Something is kept for this name: it has an end also if no agent of this name ever comes.
local function expect(scope, name)
	if read('ZSCORE', index_key(scope), name) then return end
	local prefix = scope == '' and '' or scope .. ':'
	local left = redis.call('PTTL', prefix .. 'agent:' .. name)
	ends_in(scope, name, left > 0 and left or WAITING_MS)
end

-- What tells one life of an agent from the next: when its process looked for its devices, as its resource says. Nil where it does
-- not.
local function lives_key(scope) return 'nanoctrl:lives:' .. scope end

local function life_in(resource)
	local life = string.match(resource, '"topology_epoch"%s*:%s*(%d+)%s*[,}]')
	return life and #life <= 20 and life or nil
end

local function noted_life(scope, name) return read('HGET', lives_key(scope), name) or nil end

local function note_life(scope, name, life)
	if life and noted_life(scope, name) ~= life then write('HSET', lives_key(scope), name, life) end
end

local function note_target(scope, who, target)
	write('SADD', targets_set(scope, who), target)
	write('SADD', named_set(scope, target), who)
end

local function ask_to_connect(prefix, who, target)
	write('XADD', prefix .. 'stream:' .. who, 'MAXLEN', '~', 1000, '*', 'type', 'connect_peer', 'peer', target, 'timestamp',
		clock[1])
end

-- Who wants to be connected to this agent and could not be, since it was not there. A namer whose time is over, too, may come back
-- as who it was, and reads it then. Answers how many such were noted.
local function ask_namers(prefix, scope, name)
	local namers = read('SMEMBERS', named_set(scope, name)) or {}
	for _, who in ipairs(namers) do
		if who ~= name and (redis.call('EXISTS', prefix .. 'agent:' .. who) == 1 or noted_life(scope, who)) then
			ask_to_connect(prefix, who, name)
		end
	end
	return #namers
end

-- The same for one that came back before its end was noticed: whoever is told of that end only now lets go of what it had first,
-- and not of a connection of the new life. Members are LENGTH:SCOPE NAME (without the blank), by the time to ask at.
local RETURNED, TOLD_MS = 'nanoctrl:returned', 1000

local function ask_namers_later(scope, name)
	write('ZADD', RETURNED, text(now + TOLD_MS), #scope .. ':' .. scope .. name)
end

-- A string that anybody may have written; a longer one is none.
local function string_of(key, most)
	local len = read('STRLEN', key)
	if not len then return false end
	if len > most then
		skipped = skipped + 1
		return false
	end
	return read('GET', key)
end

-- The names in a list of targets that anybody may have written; {} when it cannot be read, or not in a moment.
local function targets_in(prefix, name)
	local ok, spec = pcall(cjson.decode, string_of(prefix .. 'spec:topology:' .. name, TARGETS_BYTES) or '')
	local names = {}
	if ok and type(spec) == 'table' and type(spec.target_peers) == 'table' then
		for _, target in ipairs(spec.target_peers) do
			if type(target) == 'string' then names[#names + 1] = target end
		end
	end
	return names
end

-- Into an inbox; one that nobody is there to empty does not stay.
local function drop(prefix, name, kind, word)
	local key = prefix .. kind .. name
	write('LPUSH', key, word)
	if redis.call('EXISTS', prefix .. 'agent:' .. name) == 0 then redis.call('PEXPIRE', key, AGENT_MS) end
end

-- The end of an agent: everything of it goes, and whoever has to do with it is told. At once it is not there any more; of what it
-- owned at most so many keys go with one call, and until there are no more its time is over and nobody is told. Answers how much
-- that was, and whether it was all.
local function forget(prefix, scope, me, most)
	local owned, targets, peers, n = owned_set(scope, me), targets_set(scope, me), {}, 1
	local keys = read('SPOP', owned, most) or {}
	for _, key in ipairs(keys) do redis.call('UNLINK', key) end
	write('HDEL', lives_key(scope), me)
	redis.call('UNLINK', prefix .. 'agent:' .. me, prefix .. 'stream:' .. me, prefix .. 'inbox:' .. me)
	if scope == '' then redis.call('UNLINK', ':inbox:' .. me) end
	if #keys == most then
		ends_in(scope, me, 0)
		return n + most, false
	end

	for _, name in ipairs(targets_in(prefix, me)) do peers[name] = true end
	for _, name in ipairs(read('SMEMBERS', named_set(scope, me)) or {}) do peers[name] = true end
	for _, name in ipairs(read('SMEMBERS', targets) or {}) do
		peers[name] = true
		write('SREM', named_set(scope, name), me)
	end
	peers[me] = nil

	redis.call('UNLINK', prefix .. 'spec:topology:' .. me, owned, targets)
	write('ZREM', index_key(scope), me)

	local word = '{"peer":' .. cjson.encode(me) .. ',"type":"cleanup"}'
	for name in pairs(peers) do
		n = n + 1
		drop(prefix, name, 'inbox:', word)
		-- Agents without a scope listen here.
		if scope == '' then drop(prefix, name, ':inbox:', word) end
	end
	return n + #keys, true
end
