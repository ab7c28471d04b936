-- ARGV: keep, after, limit
local cursor = last_event()
local names, next_name = page(ARGV[2], ARGV[3])
local rows = {}
for _, name in ipairs(names) do
	local row = agent_row(name)
	if row then rows[#rows + 1] = row end
end
return { OK, read_epoch(), cursor, text(now), next_name, skipped, rows }
