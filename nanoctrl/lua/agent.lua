-- One agent, by name or by its lease. ARGV: keep, name, lease ('' for anyone), secret hash
local cursor = last_event()
if ARGV[3] ~= '' then
	local word = holder(ARGV[2], ARGV[3], ARGV[4])
	if word ~= OK then return { word } end
end
local e = read_epoch()
local row = agent_row(ARGV[2], e)
if not row then return { NOT_FOUND } end
return { OK, e, cursor, text(now), '', skipped, { row } }
