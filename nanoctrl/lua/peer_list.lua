-- ARGV: keep, scope, the most bytes.
-- Answers {OK, {{name, addr, device, ib_port, link_type, resource, topology, memory_keys}, ...}, how many were skipped}.
local ROW_MAX = 33554432 -- of what anybody may have written; a longer one is none
local rows, bytes = {}, 0
for name in members(index_key(ARGV[2])) do
	local h = read('HMGET', P .. 'agent:' .. name, 'addr', 'device', 'ib_port', 'link_type', 'resource', 'topology', 'memory_keys')
	if h and h[1] then
		local row = { name }
		for i = 1, 7 do row[i + 1] = h[i] or '' end
		local own = ROW
		for i = 1, 8 do own = own + #row[i] end
		if own > ROW_MAX then
			skipped = skipped + 1
		else
			bytes = bytes + own
			if bytes > tonumber(ARGV[3]) then return { TOO_LARGE } end
			rows[#rows + 1] = row
		end
	end
end
return { OK, rows, skipped }
