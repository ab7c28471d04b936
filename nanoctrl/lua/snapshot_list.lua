-- KEYS[1] is what stands before all keys. ARGV: keep, scope, the key to go on behind ('' from the first), how many, the most bytes of all, and of one,
-- the native scope, and '1' when the labels of its agents are wanted, too.
-- Answers {OK, now, the key to go on behind ('' at the end), how many were skipped, {document, ...}, {{agent, its labels, lease}, ...}}. lease is '1' or
-- '0' for a snapshot of a native agent that has or has not a lease, '' for those of others.
local index, limit = P .. 'nanoctrl:snapshots:' .. ARGV[2], tonumber(ARGV[4])
local keys = read('ZRANGEBYLEX', index, ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0, limit) or {}
local rows, owners, bytes, last, more = {}, {}, 0, '', #keys == limit
local head = #(P .. in_scope(ARGV[2], 'obs:peer:'))

local function agent_of(name) return P .. '{' .. ARGV[7] .. '}:nanoctrl:agent:' .. #name .. ':' .. name end

-- Nothing for an agent that is not native.
local function labels_of(name) return ARGV[8] == '1' and read('HGET', agent_of(name), 'labels') or '' end

local function lease_of(name, document)
	if not is_native(document) then return '' end
	return counted(read('HGET', agent_of(name), 'generation')) and '1' or '0'
end

for _, key in ipairs(keys) do
	local len, name = number(read('STRLEN', key)), string.sub(key, head + 1)
	local labels = len > 0 and labels_of(name) or ''
	if len == 0 then
		redis.call('ZREM', index, key) -- it has expired, or is something else now
	elseif len > tonumber(ARGV[6]) then
		skipped = skipped + 1
	elseif bytes > 0 and bytes + len + #labels > tonumber(ARGV[5]) then
		more = true
		break
	else
		local document = read('GET', key)
		bytes = bytes + len + #labels
		rows[#rows + 1] = document
		owners[#owners + 1] = { name, labels, lease_of(name, document) }
	end
	last = key
end
return { OK, text(now), more and last or '', skipped, rows, owners }
