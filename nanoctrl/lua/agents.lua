-- ARGV: keep, after, limit
local e, cursor = read_epoch(), last_event()
local names, next_name = page(ARGV[2], ARGV[3])
local PAGE_BYTES = 1048576
local rows, bytes = {}, 0
for i, name in ipairs(names) do
	local row = agent_row(name, e)
	if row then
		rows[#rows + 1] = row
		for _, part in ipairs(row) do bytes = bytes + #part end
	end
	-- An answer stays bounded: the rest of the page comes with the next.
	if bytes >= PAGE_BYTES and i < #names then
		next_name = name
		break
	end
end
return { OK, e, cursor, text(now), next_name, skipped, rows }
