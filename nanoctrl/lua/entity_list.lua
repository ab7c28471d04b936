-- ARGV: keep, scope, type, kind, whether the type and whether the kind is asked for (0 or 1), the most bytes
local INFO_MAX = 33554432 -- as in entity_get
local infos, bytes = {}, 0

-- Those of one type stand together where all scores are 0; no name has the byte 255.
local function of_type(index, type)
	local prefix, portion, i = #type .. ':' .. type, {}, 0
	local from = '[' .. prefix
	return function()
		if i == #portion then
			portion = read('ZRANGEBYLEX', index, from, '(' .. prefix .. '\255', 'LIMIT', 0, 1000) or {}
			from, i = '(' .. (portion[#portion] or prefix), 0
		end
		i = i + 1
		return portion[i]
	end
end

local found = ARGV[5] == '0' and members('nanoctrl:entities:' .. ARGV[2]) or of_type('nanoctrl:types:' .. ARGV[2], ARGV[3])
for member in found do
	local type, id = two_of(member)
	if type then
		local h = read('HMGET', P .. type .. ':' .. id, 'info', 'kind')
		if h and h[1] and #h[1] > INFO_MAX then
			skipped = skipped + 1
		elseif h and h[1] and (ARGV[6] == '0' or h[2] == ARGV[4]) then
			bytes = bytes + ROW + #h[1]
			if bytes > tonumber(ARGV[7]) then return { TOO_LARGE } end
			infos[#infos + 1] = h[1]
		end
	end
end
return { OK, infos, skipped }
