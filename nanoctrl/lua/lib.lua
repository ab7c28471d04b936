-- This text is put before every script; before some only the part up to a heading (compat/lua/embed.cmake). KEYS[1] is the
-- scope's prefix, "{scope}:nanoctrl:" (a key that never exists), and ARGV[1] how many events the scope keeps. Results begin
-- with one of these words (enum store_outcome).
local OK, NOT_FOUND, NAME_TAKEN, SUPERSEDED, LEASE_GONE = 0, 1, 2, 3, 4
local REPLACED, STALE, PEER_NOT_FOUND, PEER_CHANGED, TOO_MANY, INBOX_FULL, TOO_LARGE = 5, 6, 7, 8, 9, 10, 11

local P = KEYS[1]

-- Values that other programs damaged stay as they are. A write to an index whose key has another type is skipped and counted,
-- and answers false; a write to an object or a counter ends the script with the error. Any other error (no memory, read-only)
-- ends it as well.
local skipped = 0
local function check_junk(err)
	for _, words in ipairs({ 'WRONGTYPE', 'not an integer', 'would overflow', 'exhausted' }) do
		if string.find(err, words) then return end
	end
	error(err)
end

local function write(...)
	local r = redis.pcall(...)
	if type(r) == 'table' and r.err then
		check_junk(r.err)
		skipped = skipped + 1
		return false
	end
	return r
end

-- ---- reading ----

-- Lua numbers print with 14 digits; identities have up to 16.
local function text(n) return string.format('%.0f', n) end

-- A value of the wrong type reads as absent.
local function read(...)
	local r = redis.pcall(...)
	if type(r) == 'table' and r.err then
		skipped = skipped + 1
		return false
	end
	return r
end

-- ---- clock ----

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- ---- numbers and names ----

local ROW = 128 -- what a row of a list takes besides its texts

-- A key that stands behind its scope; '' is none.
local function in_scope(scope, key) return (scope == '' and '' or scope .. ':') .. key end

local function number(s) return tonumber(s or '') or 0 end

-- ---- leases ----

local DUE, NAMES, DEAD, EVENTS = P .. 'due', P .. 'names', P .. 'dead', P .. 'events'
local EPOCH, SEQ, EVENT_SEQ = P .. 'epoch', P .. 'seq', P .. 'event_seq'

local function agent_key(name) return P .. 'agent:' .. #name .. ':' .. name end
local function owned_key(kind, generation) return P .. kind .. ':' .. generation end

local EXACT = 2 ^ 53 -- Lua counts without a gap below it
local micros = clock[1] .. string.format('%06d', clock[2])

-- The prefix of all keys: empty, or in a cluster the tag that keeps them in one slot; and the scope.
local function place() return string.match(P, '^(.*){(.*)}:nanoctrl:$') end

-- The reaper sweeps this scope: before long, and by this time.
local function sweep_by(ms)
	local root, scope = place()
	write('ZADD', root .. 'nanoctrl:ends', 'LT', text(ms), scope)
	write('SADD', root .. 'nanoctrl:scopes', scope)
end

local function lease_ends(name, ms)
	write('ZADD', DUE, text(ms), name)
	sweep_by(ms)
end

-- Epochs, generations and ids of events, as they are stored; false: others damaged it.
local function counted(s) return s and string.match(s, '^[1-9]%d*$') and tonumber(s) < EXACT and s end

local function count(key)
	local n = redis.call('INCR', key)
	if n < 1 or n >= EXACT then error(key .. ' is no counter of ours') end
	return text(n)
end

-- Before a script that begins by deleting: what refuses to grow refuses here, with nothing done.
local function gate() return count(SEQ) end

-- Everything that Redis lost, it lost before the epoch `since` (schema.lua). Later epochs are greater even if the clock goes
-- back: `last` is the last one that was given out.
local function run_key() return place() .. 'nanoctrl:run' end

local function new_epoch()
	local last = number(counted(read('HGET', run_key(), 'last')))
	local e = text(math.max(tonumber(micros), last + 1))
	redis.call('HSET', run_key(), 'last', e)
	redis.call('SET', EPOCH, e)
	return e
end

-- '0' where there is none yet.
local function read_epoch()
	local e = counted(read('GET', EPOCH))
	if not e then return '0' end
	local since = counted(read('HGET', run_key(), 'since'))
	return since and tonumber(since) > tonumber(e) and since or e
end

local function epoch()
	local e = read_epoch()
	if e == '0' then return new_epoch() end
	-- From now on the scope has this epoch, even if `since` is lost.
	if read('GET', EPOCH) ~= e then redis.call('SET', EPOCH, e) end
	return e
end

local function last_event() return counted(read('GET', EVENT_SEQ)) or '0' end

-- Events are numbered without a gap, so that a reader sees whether one is missing.
local function emit(what, agent, generation, incarnation, object, to, n)
	local keep = math.max(number(ARGV[1]), 8 * number(read('ZCARD', NAMES)))
	local id = count(EVENT_SEQ)
	redis.call('XADD', EVENTS, 'MAXLEN', '~', text(keep), id .. '-0', 't', what, 'a', agent, 'g', generation, 'i', incarnation,
		'o', object, 'd', to, 'n', n, 'm', text(now))
	redis.call('PUBLISH', P .. 'wake', id)
end

-- How long a lease lasts, as the server that granted it told the agent: that may be a nanoctrl with another setting. Other
-- programs may have damaged the value.
local LASTS_MAX = 3600000
local function lasting(ttl, ours)
	local ms = number(counted(ttl))
	return ms > 0 and ms <= LASTS_MAX and ms or tonumber(ours)
end

-- The fields of a live agent; nil when there is none.
local function agent(name, ...)
	local h = read('HMGET', agent_key(name), 'generation', ...)
	if not h or not counted(h[1]) then return nil end
	return h
end

-- Whether a lease is the one that counts: a word, the generation, the incarnation, the session, how long it lasts.
local function holder(name, lease, secret)
	local h = agent(name, 'lease', 'secret', 'incarnation', 'taken', 'session', 'ttl')
	if not h then return LEASE_GONE end
	if h[2] ~= lease then
		if h[5] == lease then return SUPERSEDED end
		return LEASE_GONE
	end
	if h[3] ~= secret then return LEASE_GONE end
	return OK, h[1], h[4] or '', h[6] or '', h[7]
end

-- ---- the order of writes ----

-- A request may be executed after its client gave it up and went on. Each write carries a number that grows, and what is older than a write
-- that is known is refused. What a generation withdrew is remembered in a sorted set for each kind, by its number: '-NAME'. Of what is there
-- the value has the number; that of an offer goes with the peer, and so is here as well: '+NAME'. The set is bounded: the member '' has the
-- greatest number that was forgotten, and what is not known has to be above it.
local function order_key(kind, generation) return owned_key('order.' .. kind, generation) end

-- The number of the last write that made an object, and that of the last one that withdrew it; `stored` is its value, or false.
local function last_orders(kind, generation, name, stored)
	local scores = read('ZMSCORE', order_key(kind, generation), '+' .. name, '-' .. name, '') or {}
	local made = math.max(number(scores[1]), number(string.match(stored or '', '^(%d+) ')))
	local gone = number(scores[2])
	if made == 0 and gone == 0 then gone = number(scores[3]) end
	return made, gone
end

local function note_order(kind, generation, name, sign, order, most)
	local key = order_key(kind, generation)
	write('ZADD', key, order, sign .. name)
	redis.call('ZREM', key, (sign == '+' and '-' or '+') .. name)
	if redis.call('ZCARD', key) <= tonumber(most) then return end
	local lowest = redis.call('ZRANGE', key, 0, 1, 'WITHSCORES')
	local i = lowest[1] == '' and 3 or 1
	redis.call('ZADD', key, 'GT', lowest[i + 1], '')
	redis.call('ZREM', key, lowest[i])
end

-- Of a name that was given back, or whose lease ended, the last registration of its owner stays known for the time of one more
-- lease.
local function left_key(name, owner) return P .. 'left:' .. #name .. ':' .. name .. ':' .. owner end

local function note_left(name)
	local h = agent(name, 'owner', 'order', 'ttl')
	if h and h[2] and counted(h[3]) then
		redis.call('SET', left_key(name, h[2]), h[3], 'PX', text(lasting(h[4], LASTS_MAX)))
	end
end

-- The end of a generation: everything that it owned becomes invisible. Offers that it posted, and offers for it, are removed in
-- batches (reap.lua); they are invisible meanwhile, since their generation is over.
local function finish(name, generation)
	redis.call('UNLINK', agent_key(name), owned_key('region', generation), owned_key('link', generation),
		order_key('region', generation), order_key('link', generation), order_key('offer', generation))
	write('ZREM', DUE, name)
	write('ZREM', NAMES, name)
	if redis.call('EXISTS', owned_key('sent', generation), owned_key('inbox', generation)) > 0 then
		write('SADD', DEAD, generation)
	end
end

local function n_owned(generation)
	return number(read('HLEN', owned_key('region', generation))) + number(read('HLEN', owned_key('link', generation)))
		+ number(read('SCARD', owned_key('sent', generation)))
end

-- "revision stored_at doc_length\n" doc blob
local function object_without_blob(v)
	local head, len = string.match(v, '^(%d+ %d+ (%d+)\n)')
	if not head then
		skipped = skipped + 1
		return nil
	end
	return string.sub(v, 1, #head + tonumber(len))
end

local AGENT = { 'epoch', 'incarnation', 'address', 'labels', 'services', 'attributes', 'revision', 'registered_at', 'session' }

-- The fields of struct store_agent; nil when there is no such agent. An agent that exists now exists in this epoch e, also if
-- it registered in an earlier one.
local function agent_row(name, e)
	local h = agent(name, unpack(AGENT))
	if not h then return nil end
	if e ~= '0' then h[2] = e end
	local row = { name, text(number(read('ZSCORE', DUE, name)) - now) }
	for i = 1, #AGENT + 1 do row[#row + 1] = h[i] or '' end
	return row
end

-- Names behind `after`, and the name to go on behind ('' at the end).
local function page(after, limit)
	local names = read('ZRANGEBYLEX', NAMES, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit) or {}
	return names, #names == tonumber(limit) and names[#names] or ''
end

-- ---- snapshots ----

-- Ours begin so, up to the time.
local SNAPSHOT_HEAD = '{"schema_version":1,"reported_at_ms":'

local SNAPSHOT_STOPPED = '{"status":"stopped",'

local function is_native(document)
	local from = string.sub(document, 1, #SNAPSHOT_STOPPED) == SNAPSHOT_STOPPED and #SNAPSHOT_STOPPED + 1 or 2
	return string.sub(document, from, from + #SNAPSHOT_HEAD - 2) == string.sub(SNAPSHOT_HEAD, 2)
end

local function snapshot_key(scope, name)
	return place() .. in_scope(scope, 'obs:peer:' .. name)
end
