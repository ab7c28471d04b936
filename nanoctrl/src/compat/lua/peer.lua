-- The part that the scripts of DLSlime's agents share; it stands between lib.lua and each peer_*.lua.
local AGENT_MS = 60000        -- the life of what others left without an end
local TARGETS_BYTES = 4194304 -- of a list of targets; a longer one is none,
local DECODED_BYTES = 524288  -- and so is one of this length where all of it has to be decoded
local WAITING_MS = 3600000    -- how long what is there for an agent that never came is kept

local function index_key(scope) return 'nanoctrl:peers:' .. scope end
local function set_key(kind, scope, name) return 'nanoctrl:' .. kind .. ':' .. #scope .. ':' .. scope .. name end

-- The keys that an agent owns, the targets that it ever named, and the agents that named it (its namers). The last set outlives
-- the agent: it belongs to the namers, and goes with them.
local function owned_set(scope, name) return set_key('owned', scope, name) end
local function targets_set(scope, name) return set_key('targets', scope, name) end
local function named_set(scope, name) return set_key('named', scope, name) end

-- The agent ends then, unless it is renewed.
local function ends_in(scope, name, ms)
	write('ZADD', index_key(scope), text(now + ms), name)
	note_end('peer', scope, now + ms)
end

-- Something is kept for this name: it has an end also if no agent of this name ever comes.
local function expect(scope, name)
	if read('ZSCORE', index_key(scope), name) then return end
	local left = redis.call('PTTL', in_scope(scope, 'agent:' .. name))
	ends_in(scope, name, left > 0 and left or WAITING_MS)
end

-- The mark of one life of an agent: when its process listed its devices, as its resource says. Nil where it does not say.
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

local function ask_to_connect(scope, who, target)
	write('XADD', in_scope(scope, 'stream:' .. who), 'MAXLEN', '~', 1000, '*', 'type', 'connect_peer', 'peer', target,
		'timestamp', clock[1])
end

-- Ask an agent that named this one to connect. A namer whose time is over may come back with the same name, and reads the
-- request then.
local function ask(scope, who, name)
	if who ~= name and (redis.call('EXISTS', in_scope(scope, 'agent:' .. who)) == 1 or noted_life(scope, who)) then
		ask_to_connect(scope, who, name)
	end
end

-- The same of all of them, by a sweep, some at a time. Members are LENGTH:SCOPE NAME (without the blank), by the time to ask at.
local RETURNED = 'nanoctrl:returned'

local function ask_namers_in(scope, name, ms)
	write('ZADD', RETURNED, text(now + ms), #scope .. ':' .. scope .. name)
end

-- For an agent that came back before its end was noticed: agents that are told of that end only now drop the connection of the
-- former life, and not one of the new life.
local TOLD_MS = 1000

-- Agents that want to be connected to this agent, which did not exist before, are asked at once where they are few.
local ASKED_MAX, asked = 200, 0
local function ask_namers(scope, name)
	local n = number(read('SCARD', named_set(scope, name)))
	if n == 0 then return end
	asked = asked + n
	if asked > ASKED_MAX then
		ask_namers_in(scope, name, 0)
		return
	end
	for _, who in ipairs(read('SMEMBERS', named_set(scope, name)) or {}) do ask(scope, who, name) end
end

-- A string that any program may have written; a longer one counts as none.
local function string_of(key, most)
	local len = read('STRLEN', key)
	if not len then return false end
	if len > most then
		skipped = skipped + 1
		return false
	end
	return read('GET', key)
end

-- The names in a list of targets that any program may have written; {} when it cannot be read, or not within the bounds.
local function targets_in(scope, name)
	local ok, spec = pcall(cjson.decode, string_of(in_scope(scope, 'spec:topology:' .. name), DECODED_BYTES) or '')
	local names = {}
	if ok and type(spec) == 'table' and type(spec.target_peers) == 'table' then
		for _, target in ipairs(spec.target_peers) do
			if type(target) == 'string' then names[#names + 1] = target end
		end
	end
	return names
end

-- Write into an inbox; an inbox without an agent that empties it does not stay.
local function drop(scope, name, kind, word)
	local key = in_scope(scope, kind .. name)
	write('LPUSH', key, word)
	if redis.call('EXISTS', in_scope(scope, 'agent:' .. name)) == 0 then redis.call('PEXPIRE', key, AGENT_MS) end
end

-- The most that one call does of long work: keys that are deleted, and other steps that take as long.
local MOST, ENDING, TELLING, ASKING = 500, 10, 3, 2

-- Which end is under way: the time that it is noted with; '' for none.
local function ending(scope, me)
	local noted = number(read('ZSCORE', index_key(scope), me) or nil)
	return noted ~= 0 and noted <= now and text(math.abs(noted)) or ''
end

-- The agents that named it, and the targets that it ever named; beside those that had to be told of the first end, when the end
-- of the next agent of this name came between.
local function note_told(scope, me, told)
	for _, set in ipairs({ named_set(scope, me), targets_set(scope, me) }) do read('SUNIONSTORE', told, told, set) end
	local names = targets_in(scope, me)
	for i = 1, #names, 1000 do redis.call('SADD', told, unpack(names, i, math.min(i + 999, #names))) end
	redis.call('SREM', told, me)
	redis.call('PEXPIRE', told, WAITING_MS)
end

local function tell(scope, me, names)
	local word = '{"peer":' .. cjson.encode(me) .. ',"type":"cleanup"}'
	for _, name in ipairs(names) do
		write('SREM', named_set(scope, name), me)
		drop(scope, name, 'inbox:', word)
		-- Agents without a scope listen here.
		if scope == '' then drop(scope, name, ':inbox:', word) end
	end
end

-- The end of an agent: everything that belongs to it is deleted, and agents that are connected to it are told. It is
-- unregistered at once; of the keys that it owned, and of the agents that are told, one call handles a part. Until all is done
-- its time in the index is over, and negative once only agents are left to be told; a new agent of the name has another time.
-- Answers how much was done, and whether it was all.
local function forget(scope, me, most)
	local index, key = index_key(scope), in_scope(scope, 'agent:' .. me)
	local spec, owned, targets = in_scope(scope, 'spec:topology:' .. me), owned_set(scope, me), targets_set(scope, me)
	local told, noted, n = set_key('told', scope, me), number(read('ZSCORE', index, me) or nil), ENDING
	local over = noted ~= 0 and noted <= now and redis.call('EXISTS', key) == 0
	local since = over and math.abs(noted) or now

	local function goes_on(at)
		write('ZADD', index, text(at), me)
		note_end('peer', scope, at)
		return n, false
	end

	if not (over and noted < 0) then
		local keys = read('SPOP', owned, math.max(1, most - n)) or {}
		for _, gone in ipairs(keys) do redis.call('UNLINK', gone) end
		write('HDEL', lives_key(scope), me)
		redis.call('UNLINK', key, in_scope(scope, 'stream:' .. me), in_scope(scope, 'inbox:' .. me))
		if scope == '' then redis.call('UNLINK', ':inbox:' .. me) end
		n = n + #keys
		if n >= most then return goes_on(since) end
		note_told(scope, me, told)
		redis.call('UNLINK', spec, owned, targets)
	end

	local some = math.max(1, math.floor((most - n) / TELLING))
	local names = read('SPOP', told, some) or {}
	tell(scope, me, names)
	n = n + TELLING * #names
	if #names == some then return goes_on(-since) end
	-- Something may be kept for the name again.
	if redis.call('EXISTS', spec, owned, targets) == 0 then
		write('ZREM', index, me)
	else
		ends_in(scope, me, WAITING_MS)
	end
	return n, true
end
