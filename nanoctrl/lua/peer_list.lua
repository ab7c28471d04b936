-- ARGV: keep, scope. Answers {OK, {{name, addr, device, ib_port, link_type, resource, topology, memory_keys}, ...}}.
local rows = {}
for _, name in ipairs(read('ZRANGE', 'nanoctrl:peers:' .. ARGV[2], 0, -1) or {}) do
	local h = read('HMGET', P .. 'agent:' .. name, 'addr', 'device', 'ib_port', 'link_type', 'resource', 'topology', 'memory_keys')
	if h and h[1] then
		local row = { name }
		for i = 1, 7 do row[i + 1] = h[i] or '' end
		rows[#rows + 1] = row
	end
end
return { OK, rows }
