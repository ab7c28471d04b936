-- ARGV: keep, scope, type, kind, whether the type and whether the kind is asked for (0 or 1), the most bytes
local infos, bytes = {}, 0
for member in members('nanoctrl:entities:' .. ARGV[2]) do
	local len, rest = string.match(member, '^(%d+):(.*)$')
	local type = len and string.sub(rest, 1, tonumber(len))
	if type and (ARGV[5] == '0' or type == ARGV[3]) then
		local h = read('HMGET', P .. type .. ':' .. string.sub(rest, #type + 1), 'info', 'kind')
		if h and h[1] and (ARGV[6] == '0' or h[2] == ARGV[4]) then
			bytes = bytes + ROW + #h[1]
			if bytes > tonumber(ARGV[7]) then return { TOO_LARGE } end
			infos[#infos + 1] = h[1]
		end
	end
end
return { OK, infos }
