-- A batch of the scopes that hold anything. KEYS[1] is what stands before all keys. ARGV: keep, where to go on ('0': from the first), how
-- many about. Answers {OK, where to go on ('0': that was all), {scope, agents, topologies, ...}}; a scope may come twice.
local step = read('SSCAN', P .. 'nanoctrl:scopes', ARGV[2], 'COUNT', ARGV[3])
if not step then return { OK, '0', {} } end
local rows = {}
for _, scope in ipairs(step[2]) do
	local prefix = P .. '{' .. scope .. '}:nanoctrl:'
	rows[#rows + 1] = scope
	rows[#rows + 1] = text(number(read('ZCARD', prefix .. 'names')))
	rows[#rows + 1] = text(number(read('HLEN', prefix .. 'topologies')))
end
return { OK, step[1], rows }
