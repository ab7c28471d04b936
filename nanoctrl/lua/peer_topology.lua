-- What an agent wants to be connected to. ARGV: keep, scope, agent, symmetric (0|1), spec, then its targets.
local scope, me = ARGV[2], ARGV[3]

local function spec_key(name) return P .. 'spec:topology:' .. name end

local function tell(whom, of)
	write('XADD', P .. 'stream:' .. whom, 'MAXLEN', '~', 1000, '*', 'type', 'connect_peer', 'peer', of, 'timestamp', clock[1])
end

-- Who names whom, so that the end of one is told to the others.
local function note(named, by) write('SADD', 'nanoctrl:named:' .. #scope .. ':' .. scope .. named, by) end

local function list_of(name)
	return { target_peers = { name }, symmetric = false, min_bw = cjson.null, scope = scope ~= '' and scope or cjson.null }
end

-- The other side's list gets us, and keeps what else it says. One that cannot be read, or not be written, is replaced.
local function merge(target)
	local read_it, spec = pcall(cjson.decode, read('GET', spec_key(target)) or '')
	if not read_it or type(spec) ~= 'table' or type(spec.target_peers) ~= 'table' then
		spec = list_of(me)
	else
		for _, name in ipairs(spec.target_peers) do
			if name == me then return end
		end
		table.insert(spec.target_peers, me)
	end
	local fits, words = pcall(cjson.encode, spec)
	redis.call('SET', spec_key(target), fits and words or cjson.encode(list_of(me)))
end

redis.call('SET', spec_key(me), ARGV[5])
for i = 6, #ARGV do
	tell(me, ARGV[i])
	note(ARGV[i], me)
	if ARGV[4] == '1' then
		merge(ARGV[i])
		tell(ARGV[i], me)
		note(me, ARGV[i])
	end
end
return { OK }
