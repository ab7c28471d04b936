-- The part that the scripts for DLSlime's keys share; it stands between nanoctrl/lua/lib.lua, up to its leases, and each of
-- them.

-- ---- members of indexes ----

-- The two texts of a member LENGTH:ONE OTHER (without the blank); nil where it is none.
local function two_of(member)
	local len, rest = string.match(member, '^(%d+):(.*)$')
	if not len then return nil end
	return string.sub(rest, 1, tonumber(len)), string.sub(rest, tonumber(len) + 1)
end

local KIND_MAX = 65536

-- For when the entity is not there any more. Others may have written a kind that is very long.
local function note_kind(scope, member, key)
	if (read('HSTRLEN', key, 'kind') or 0) > KIND_MAX then return end
	write('HSET', 'nanoctrl:kinds:' .. scope, member, read('HGET', key, 'kind') or '')
end

-- ---- ends ----

-- Of the scopes that have agents or entities (kind: peer, entity) it is noted when the first of them ends, or a time before that: a beat
-- moves nothing here. A sweep asks for those that are due, however many scopes there are.
local function note_end(kind, scope, ms)
	write('ZADD', 'nanoctrl:' .. kind .. '_ends', 'LT', text(ms), scope)
	write('SADD', 'nanoctrl:' .. kind .. '_scopes', scope)
end

-- Where something in an index is due, sweep(scope, how much may be done) does it, and answers how much that was and whether it was all.
-- Some scopes are swept by chance, since another release may not note when their first end is.
-- Answers how much was done, and whether there is more to do at once.
local SCOPES_DUE, SCOPES = 100, 256 -- that are due, and by chance
local function sweep_scopes(kind, index, most, sweep)
	local ends, scopes = 'nanoctrl:' .. kind .. '_ends', 'nanoctrl:' .. kind .. '_scopes'
	local done, more, moved, seen = 0, false, false, {}

	local function first_of(scope)
		local first = read('ZRANGEBYSCORE', index .. scope, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1) or {}
		return tonumber(first[2] or nil)
	end

	local function sweep_one(scope)
		local first = first_of(scope)
		if first and first <= now then
			local n, all = sweep(scope, most - done)
			done, more = done + n, more or not all
			first = first_of(scope)
		end
		-- Where there is no memory, this is for a later sweep.
		if first then
			redis.pcall('ZADD', ends, text(first), scope)
		else
			redis.pcall('ZREM', ends, scope)
			redis.pcall('SREM', scopes, scope)
		end
		seen[scope] = true
		return not first or first > now
	end

	local due = read('ZRANGEBYSCORE', ends, '-inf', text(now), 'LIMIT', 0, SCOPES_DUE) or {}
	for _, scope in ipairs(due) do
		if done >= most then return done, true end
		moved = sweep_one(scope) or moved
	end
	-- Those that nothing can be done about stay where they are.
	if more or #due == SCOPES_DUE and moved then return done, true end
	for _, scope in ipairs(read('SRANDMEMBER', scopes, SCOPES) or {}) do
		if done >= most then return done, true end
		if not seen[scope] then sweep_one(scope) end
	end
	return done, more
end
