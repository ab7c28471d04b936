-- Keys that others wrote to Redis themselves enter the indexes, so that lists, ends and snapshots find them. What is
-- not theirs stays as it is. ARGV: keep, how many targets of the first key are done, then keys.
-- Answers {OK, '', how many were skipped, how many keys are done, how many targets of the next}: one call does a part.
local WORDS = { 'agent:', 'mr:', 'exchange:', 'spec:topology:', 'obs:peer:' }
local READINGS = 16 -- of a key whose names have colons
local VALUE_MAX = 65536
local MOMENT_MS = 1000
local BEAT_MS = 15000 -- of theirs
local WORK, work = 1500, 0 -- commands of one call, about

-- The first word at the beginning or behind a colon, the scope before it and what follows.
local function split(key)
	local at = 1
	while at do
		for _, word in ipairs(WORDS) do
			if string.sub(key, at, at + #word - 1) == word then
				return word, string.sub(key, 1, math.max(at - 2, 0)), string.sub(key, at + #word)
			end
		end
		local colon = string.find(key, ':', at, true)
		at = colon and colon + 1
	end
end

-- A key without TTL gets one.
local function left_of(key)
	local left = redis.call('PTTL', key)
	if left ~= -1 then return left end
	redis.call('PEXPIRE', key, AGENT_MS)
	return AGENT_MS
end

local function agent_is_there(scope, name)
	return name ~= '' and read('HEXISTS', in_scope(scope, 'agent:' .. name), 'addr') == 1
end

-- Whether this is another life than the one that was noted, or the first life of a name that was only expected. An agent that
-- does not say which life it is, or says the same one, may still have come back before its end was noticed: it begins with all
-- of its time, as other servers give it with every heartbeat, too, and with no regions. An agent that registers says when, by
-- its server's clock, which has to be within half a heartbeat of ours: else it would be asked for with every heartbeat. If an
-- agent is taken for a new life by mistake, its namers get one message, which they ignore.
local function is_new(scope, name, key, left, life)
	local noted = tonumber(read('ZSCORE', index_key(scope), name) or nil)
	if not noted or noted > now + AGENT_MS then return true end
	local known = noted_life(scope, name)
	if life and known and life ~= known then return true end
	local begun = tonumber(read('HGET', key, 'updated_at') or nil)
	return left > AGENT_MS - MOMENT_MS and math.abs(now + left - noted) > MOMENT_MS
		and begun and math.abs(now + left - AGENT_MS - begun * 1000) < BEAT_MS / 2
		and number(read('HSTRLEN', key, 'memory_keys')) <= #'[]'
end

local function note_agent(scope, name)
	work = work + 10
	local key = in_scope(scope, 'agent:' .. name)
	local left = left_of(key)
	local life = number(read('HSTRLEN', key, 'resource')) <= VALUE_MAX and life_in(read('HGET', key, 'resource') or '')
	if is_new(scope, name, key, left, life) then ask_namers(scope, name) end
	ends_in(scope, name, left)
	note_life(scope, name, life)
end

-- The only beginning of text, up to a colon or all of it, that is an agent, and the rest of text. None when several agents are
-- possible, or the key has its owner: a key that has an owner is not taken away with another agent.
local function agent_in(scope, text, key)
	local from, found, behind = 1, nil, nil
	for _ = 1, READINGS do
		work = work + 3
		local colon = string.find(text, ':', from, true)
		local name = colon and string.sub(text, 1, colon - 1) or text
		if read('SISMEMBER', owned_set(scope, name), key) == 1 then return nil end
		if agent_is_there(scope, name) then
			if found then return nil end
			found, behind = name, colon and string.sub(text, colon + 1)
		end
		if not colon then break end
		from = colon + 1
	end
	return found, behind
end

-- It may have gone since we heard of it.
local function own(scope, name, key)
	work = work + 3
	if redis.call('EXISTS', key) == 0 then return end
	write('SADD', owned_set(scope, name), key)
	if not read('ZSCORE', index_key(scope), name) then note_agent(scope, name) end
end

local function decoded(key)
	local ok, v = pcall(cjson.decode, string_of(key, VALUE_MAX) or '')
	return ok and type(v) == 'table' and v or {}
end

-- An entity says what its key is made of.
local function learn_entity(key)
	if read('HEXISTS', key, 'info') ~= 1 then return end
	-- These are in the key: longer ones are not what it is made of, and may be very long.
	if number(read('HSTRLEN', key, 'entity_type')) + number(read('HSTRLEN', key, 'entity_id')) >= #key then return end
	local h = read('HMGET', key, 'entity_type', 'entity_id')
	if not (h[1] and h[2]) then return end
	local tail = h[1] .. ':' .. h[2]
	local scope = string.sub(key, 1, -#tail - 2)
	if in_scope(scope, tail) ~= key then return end
	local member = #h[1] .. ':' .. h[1] .. h[2]
	work = work + 10
	local ends = now + left_of(key)
	write('ZADD', 'nanoctrl:entities:' .. scope, text(ends), member)
	note_end('entity', scope, ends)
	write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
	note_kind(scope, member, key)
end

local learn = {}

learn['agent:'] = function(key, scope, name)
	local function has(field) return read('HEXISTS', key, field) == 1 end
	if has('addr') and name ~= '' then
		note_agent(scope, name)
	elseif has('memory_keys') and has('updated_at') then
		left_of(key) -- what an agent wrote after its end
	else
		learn_entity(key)
	end
end

-- A region names its agent when that agent wrote it.
learn['mr:'] = function(key, scope, rest)
	local name = decoded(key).agent_name
	if type(name) ~= 'string' or string.sub(rest, 1, #name + 1) ~= name .. ':' or not agent_is_there(scope, name) then
		name = agent_in(scope, rest, key)
	end
	if name and name ~= rest then own(scope, name, key) end
end

-- It goes with the first of both that goes.
learn['exchange:'] = function(key, scope, rest)
	local name, behind = agent_in(scope, rest, key)
	if name and behind then
		own(scope, name, key)
		local peer = agent_in(scope, behind, key)
		if peer then own(scope, peer, key) end
	end
end

-- Answers how many targets are done where some are left.
learn['spec:topology:'] = function(_, scope, name, from)
	if not agent_is_there(scope, name) then return nil end
	local targets = targets_in(scope, name)
	local upto = math.min(#targets, from + math.max(1, math.floor((WORK - work) / 2)))
	for i = from + 1, upto do note_target(scope, name, targets[i]) end
	work = work + 2 * (upto - from)
	expect(scope, name)
	return upto < #targets and upto or nil
end

learn['obs:peer:'] = function(key, scope)
	if number(read('STRLEN', key)) == 0 then return end
	scope = scope == 'default' and '' or scope
	write('ZADD', 'nanoctrl:snapshots:' .. scope, 0, key)
	write('SADD', 'nanoctrl:snapshot_scopes', scope)
end

local from = tonumber(ARGV[2])
for i = 3, #ARGV do
	if work >= WORK then return { OK, '', skipped, i - 3, 0 } end
	local key = ARGV[i]
	local word, scope, rest = split(key)
	local upto = nil
	work = work + 1
	if word then upto = learn[word](key, scope, rest, from) else learn_entity(key) end
	if upto then return { OK, '', skipped, i - 3, upto } end
	from = 0
end
return { OK, '', skipped, #ARGV - 2, 0 }
