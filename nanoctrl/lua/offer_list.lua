-- ARGV: keep, name, lease, secret hash
local cursor = last_event()
local word, generation = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local all, rows = read('HGETALL', owned_key('inbox', generation)) or {}, {}
for i = 1, #all, 2 do
	local from, profile = string.match(all[i], '^([^/]+)/([^/]+)$')
	local head, of = string.match(all[i + 1], '^(%d+ (%d+) [^\n]*\n)')
	local poster = head and from and agent(from)
	if poster and poster[1] == of then rows[#rows + 1] = { from, ARGV[2], profile, head } end
end
return { OK, read_epoch(), cursor, rows }
