-- Topologies of a scope. ARGV: keep, '1': with what became of each.
-- Answers {OK, revision of the scope's topologies, number of the last expansion, now, skipped, {{name, value, report}, ...}}; a value is
-- "CREATED REVISION CHANGED_AT_MS\n" and the document.
local numbers = read('HMGET', P .. 'topology', 'revision', 'expanded') or {}
local all, rows = read('HGETALL', P .. 'topologies') or {}, {}
for i = 1, #all, 2 do
	local report = ARGV[2] == '1' and read('HGET', P .. 'topology_reports', all[i]) or ''
	rows[#rows + 1] = { all[i], all[i + 1], report }
end
return { OK, counted(numbers[1]) or '0', counted(numbers[2]) or '0', text(now), skipped, rows }
