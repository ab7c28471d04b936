-- What an agent wants to be connected to. ARGV: keep, scope, agent, symmetric (0|1), spec, then its targets.
local MERGED_BYTES = 8388608 -- of all lists that one call reads and writes: nobody else is served meanwhile
local scope, me = ARGV[2], ARGV[3]

local function spec_key(name) return P .. 'spec:topology:' .. name end

local function list_of(name)
	return { target_peers = { name }, symmetric = false, min_bw = cjson.null, scope = scope ~= '' and scope or cjson.null }
end

-- The other side's list gets us, and keeps what else it says. One that cannot be read, or not be written, is replaced.
local function merge(target)
	local read_it, spec = pcall(cjson.decode, string_of(spec_key(target), TARGETS_BYTES) or '')
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

local bytes = 0
for i = 6, ARGV[4] == '1' and #ARGV or 0 do
	local len = number(read('STRLEN', spec_key(ARGV[i])))
	bytes = bytes + (len <= TARGETS_BYTES and len or 0)
end
if bytes > MERGED_BYTES then return { TOO_LARGE } end

redis.call('SET', spec_key(me), ARGV[5])
expect(scope, me)
for i = 6, #ARGV do
	local target = ARGV[i]
	ask_to_connect(P, me, target)
	note_target(scope, me, target)
	if ARGV[4] == '1' then
		merge(target)
		ask_to_connect(P, target, me)
		note_target(scope, target, me)
		expect(scope, target)
	end
end
return { OK, '', skipped }
