-- The housekeeping of a scope, in batches. ARGV: keep, the time we expect it to be ('0': no lease may end), age of events
-- kept, batch, what a lease of ours lasts, since when (ms) agents can beat, and from which on to search for leases that end late, from 1
-- ('0': nowhere). A clock that strays ends no lease. Answers {OK, leases ended, more to do at once, leases held, skipped, where
-- to search on for late ones (0: that was all), {some of those that ended}}.
local batch, ours, steady, late_from = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local ended, more, some = 0, 0, {}

if ARGV[2] ~= '0' and math.abs(now - tonumber(ARGV[2])) <= 1000 then
	local due = read('ZRANGEBYSCORE', DUE, '-inf', text(now), 'LIMIT', 0, batch) or {}
	if #due > 0 then gate() end
	for _, name in ipairs(due) do
		local h = agent(name, 'incarnation', 'ttl', 'session', 'opened')
		-- An agent whose session broke had to be back within its grace time.
		local lasts = h and (h[4] ~= '' or h[5] == '0') and lasting(h[3], ours) or 0
		if lasts > steady then
			-- Its agent beats less often than ours: it had no time to come back yet.
			write('ZADD', DUE, text(now + lasts - steady), name)
		else
			if h then
				emit('expired', name, h[1], h[2] or '', '', '', '0')
				ended = ended + 1
				if ended <= 3 then some[ended] = name end
			end
			note_left(name)
			finish(name, h and h[1] or '0')
		end
	end
	if #due == batch then more = 1 end
end

-- Offers that an ended generation had posted to others...
local function take_back(generation)
	local sent = owned_key('sent', generation)
	local taken = read('SPOP', sent, 500) or {}
	for _, v in ipairs(taken) do
		local to, field = string.match(v, '^(%d+) (.+)$')
		local inbox = to and owned_key('inbox', to)
		local stored = inbox and read('HGET', inbox, field)
		-- A newer generation may have posted under the same name.
		if stored and string.match(stored, '^%d+ (%d+) ') == generation then redis.call('HDEL', inbox, field) end
	end
	if #taken < 500 then redis.call('UNLINK', sent) end
	return #taken == 500
end

-- ...and what others had posted to it: few at a time, since each may be large.
local function give_back(generation)
	local inbox = owned_key('inbox', generation)
	local fields = read('HRANDFIELD', inbox, 50) or {}
	for _, field in ipairs(fields) do
		local from = string.match(redis.call('HGET', inbox, field), '^%d+ (%d+) ')
		if from then read('SREM', owned_key('sent', from), generation .. ' ' .. field) end
		redis.call('HDEL', inbox, field)
	end
	if #fields < 50 then redis.call('UNLINK', inbox) end
	return #fields == 50
end

local generation = read('SRANDMEMBER', DEAD)
if generation then
	local sent_left, inbox_left = take_back(generation), give_back(generation)
	if not sent_left and not inbox_left then redis.call('SREM', DEAD, generation) end
	more = 1
end

-- A later release may have written more than we know.
local function field(entry, name)
	for i = 1, #entry, 2 do
		if entry[i] == name then return entry[i + 1] end
	end
end

-- Events grow old; the numbering goes on.
local first = read('XRANGE', EVENTS, '-', '+', 'COUNT', 100) or {}
local old = nil
for _, entry in ipairs(first) do
	if number(field(entry[2], 'm')) + tonumber(ARGV[3]) > now then break end
	old = entry[1]
end
if old then
	local n = tonumber(string.match(old, '^(%d+)'))
	-- Junk with the greatest id there is stays until the stream begins anew: nothing is behind it.
	local gone = number(read('XTRIM', EVENTS, 'MINID', text(n + 1) .. '-0'))
	if gone > 0 and old == first[#first][1] and #first == 100 then more = 1 end
end

-- Where no lease could end, the clock may be another one than before, and one that was ahead gave out leases that end late by as
-- much. Behind all that frees memory: where there is none, this is for a later sweep.
if late_from > 0 then
	local late = read('ZRANGEBYSCORE', DUE, '(' .. text(now + ours), '+inf', 'WITHSCORES', 'LIMIT', late_from - 1, batch) or {}
	local stay, cut = 0, nil
	for i = 1, #late, 2 do
		local h = agent(late[i], 'ttl')
		local lasts = lasting(h and h[2], ours)
		if tonumber(late[i + 1]) > now + lasts then cut = redis.pcall('ZADD', DUE, text(now + lasts), late[i]) end
		if type(cut) == 'table' then break end
		if lasts > ours then stay = stay + 1 end
	end
	late_from = #late == 2 * batch and type(cut) ~= 'table' and late_from + stay or 0
end

-- When it is to be swept next. A lease that may not end now is due all the same.
local root, scope = place()
local first = read('ZRANGEBYSCORE', DUE, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1) or {}
if first[2] then
	redis.pcall('ZADD', root .. 'nanoctrl:ends', first[2], scope)
else
	redis.pcall('ZREM', root .. 'nanoctrl:ends', scope)
end

-- Empty sets do not exist; a key of another type tells nothing about the agents of a scope.
if redis.call('EXISTS', NAMES, DUE, DEAD, P .. 'topologies') == 0 and number(read('XLEN', EVENTS)) == 0 then
	redis.call('UNLINK', EPOCH, SEQ, EVENT_SEQ, EVENTS, DUE, NAMES, DEAD)
	write('SREM', root .. 'nanoctrl:scopes', scope)
end
return { OK, ended, more, number(read('ZCARD', DUE)), skipped, late_from, some }
