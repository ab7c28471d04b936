-- KEYS[1] is what stands before all keys. ARGV: keep, scope, the key to go on behind ('' from the first), how many, the most bytes of all, and of one.
-- Answers {OK, now, the key to go on behind ('' at the end), how many were skipped, {document, ...}}.
local index, limit = P .. 'nanoctrl:snapshots:' .. ARGV[2], tonumber(ARGV[4])
local keys = read('ZRANGEBYLEX', index, ARGV[3] == '' and '-' or '(' .. ARGV[3], '+', 'LIMIT', 0, limit) or {}
local rows, bytes, last, more = {}, 0, '', #keys == limit
for _, key in ipairs(keys) do
	local len = number(read('STRLEN', key))
	if len == 0 then
		redis.call('ZREM', index, key) -- it has expired, or is something else now
	elseif len > tonumber(ARGV[6]) then
		skipped = skipped + 1
	elseif bytes > 0 and bytes + len > tonumber(ARGV[5]) then
		more = true
		break
	else
		bytes = bytes + len
		rows[#rows + 1] = read('GET', key)
	end
	last = key
end
return { OK, text(now), more and last or '', skipped, rows }
