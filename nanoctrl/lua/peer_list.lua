-- ARGV: keep, scope, the most bytes.
-- Answers {OK, {{name, addr, device, ib_port, link_type, resource, topology, memory_keys}, ...}, how many were skipped}.
local rows, bytes = {}, 0
for name in members(index_key(ARGV[2])) do
	local h = read('HMGET', P .. 'agent:' .. name, 'addr', 'device', 'ib_port', 'link_type', 'resource', 'topology', 'memory_keys')
	if h and h[1] then
		local row = { name }
		for i = 1, 7 do row[i + 1] = h[i] or '' end
		bytes = bytes + ROW
		for i = 1, 8 do bytes = bytes + #row[i] end
		if bytes > tonumber(ARGV[3]) then return { TOO_LARGE } end
		rows[#rows + 1] = row
	end
end
return { OK, rows, skipped }
