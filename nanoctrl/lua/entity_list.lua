-- ARGV: keep, scope, type, kind, whether the type and whether the kind is asked for (0 or 1)
local infos = {}
for _, member in ipairs(read('ZRANGE', 'nanoctrl:entities:' .. ARGV[2], 0, -1) or {}) do
	local len, rest = string.match(member, '^(%d+):(.*)$')
	local type = len and string.sub(rest, 1, tonumber(len))
	if type and (ARGV[5] == '0' or type == ARGV[3]) then
		local h = read('HMGET', P .. type .. ':' .. string.sub(rest, #type + 1), 'info', 'kind')
		if h and h[1] and (ARGV[6] == '0' or h[2] == ARGV[4]) then infos[#infos + 1] = h[1] end
	end
end
return { OK, infos }
