-- The connections that an agent wants: the list is written at once, its targets are handled in batches. ARGV: keep, scope,
-- agent, symmetric (0|1), spec ('': it is written), then the targets that are left. Answers {OK, '', how many were skipped, how
-- many of these are done}.
local BATCH, BATCH_BYTES = 32, 524288 -- targets, and what their lists cost: their bytes, and more where they are decoded
local DECODE = 8
local scope, me = ARGV[2], ARGV[3]
local word = '"' .. me .. '"'
-- JSON has these in one way, and none of them stands beside a string.
local is_plain = string.find(me, '^[%w._:@-]+$')

local function spec_key(name) return P .. 'spec:topology:' .. name end

-- How a list begins that we wrote, and what is behind its names.
local NAMES_FROM, NAMES_TO = '{"target_peers":[', '],"min_bw":'

local function list_of(name)
	return NAMES_FROM .. cjson.encode(name) .. NAMES_TO .. 'null,"symmetric":false,"scope":'
		.. cjson.encode(scope ~= '' and scope or cjson.null) .. '}'
end

-- The end of the names in such a list of so many bytes, counted from 0; nil where that is not to be seen.
local function end_of_names(key, len)
	if not is_plain or redis.call('GETRANGE', key, 0, #NAMES_FROM - 1) ~= NAMES_FROM then return nil end
	local from = math.max(len - 512, 0)
	local at = string.find(redis.call('GETRANGE', key, from, -1), NAMES_TO, 1, true)
	return at and from + at - 1
end

local function insert(key, at)
	local text = redis.call('GET', key)
	local first = string.sub(text, #NAMES_FROM + 1, #NAMES_FROM + #word) == word
	local found = first and 0 or string.find(text, ',' .. word, #NAMES_FROM, true)
	if found and found <= at then return end
	redis.call('SETRANGE', key, at, (at > #NAMES_FROM and ',' or '') .. word .. string.sub(text, at + 1))
end

-- The other side's list gets us, and keeps what else it says. One that cannot be read, or not be written, is replaced. Answers what that
-- cost.
local function merge(target)
	local key = spec_key(target)
	local len = redis.pcall('STRLEN', key)
	local at = type(len) == 'number' and len <= TARGETS_BYTES and end_of_names(key, len)
	if at then
		insert(key, at)
		return len
	end
	local read_it, spec = pcall(cjson.decode, string_of(key, TARGETS_BYTES) or '')
	if not read_it or type(spec) ~= 'table' or type(spec.target_peers) ~= 'table' then
		redis.call('SET', key, list_of(me))
		return 0
	end
	for _, name in ipairs(spec.target_peers) do
		if name == me then return DECODE * len end
	end
	table.insert(spec.target_peers, me)
	local fits, words = pcall(cjson.encode, spec)
	redis.call('SET', key, fits and words or list_of(me))
	return DECODE * len
end

-- A list of others that takes long to decode is no reason to write half of what is wanted.
local function is_too_large(target)
	local len = number(read('STRLEN', spec_key(target)))
	return len > DECODED_BYTES and len <= TARGETS_BYTES and not end_of_names(spec_key(target), len)
end

if ARGV[5] ~= '' then
	for i = 6, ARGV[4] == '1' and #ARGV or 0 do
		if is_too_large(ARGV[i]) then return { TOO_LARGE } end
	end
	redis.call('SET', spec_key(me), ARGV[5])
end
expect(scope, me)

local done, cost = 0, 0
for i = 6, #ARGV do
	if done == BATCH or cost >= BATCH_BYTES then break end
	local target = ARGV[i]
	ask_to_connect(scope, me, target)
	note_target(scope, me, target)
	if ARGV[4] == '1' then
		cost = cost + merge(target)
		ask_to_connect(scope, target, me)
		note_target(scope, target, me)
		expect(scope, target)
	end
	done = done + 1
end
return { OK, '', skipped, done }
