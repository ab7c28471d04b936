-- KEYS[1] is what stands before all keys. ARGV: keep, scope, the key to go on behind ('' from the first), how many, the most bytes of all, and of one, and
-- the native scope whose agents' labels are wanted, too ('' for none).
-- Answers {OK, now, the key to go on behind ('' at the end), how many were skipped, {document, ...}, {{agent, its labels}, ...}}.
local index, limit = P .. 'nanoctrl:snapshots:' .. ARGV[2], tonumber(ARGV[4])
local keys = read('ZRANGEBYLEX', index, ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0, limit) or {}
local rows, owners, bytes, last, more = {}, {}, 0, '', #keys == limit
local head = #(P .. in_scope(ARGV[2], 'obs:peer:'))

-- Nothing for whoever is no native agent.
local function labels_of(name)
	if ARGV[7] == '' then return '' end
	return read('HGET', P .. '{' .. ARGV[7] .. '}:nanoctrl:agent:' .. #name .. ':' .. name, 'labels') or ''
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
		bytes = bytes + len + #labels
		rows[#rows + 1] = read('GET', key)
		owners[#owners + 1] = { name, labels }
	end
	last = key
end
return { OK, text(now), more and last or '', skipped, rows, owners }
