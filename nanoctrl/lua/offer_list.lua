-- A batch of the offers for an agent. ARGV: keep, name, lease, secret hash, the cursor to continue from ('' from the first).
-- Answers {OK, epoch, cursor, {row, ...}, the cursor to continue from ('' at the end)}. A caller that continues may get an
-- offer twice, since Redis may scan it twice.
local cursor = last_event()
local word, generation = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local LOOKED, READ = 1024, 1048576 -- descriptors, and bytes of them, that end a batch
local STEP = 16 -- descriptors, about, which are in memory
local inbox, place, rows, looked, bytes = owned_key('inbox', generation), ARGV[5], {}, 0, 0

local function add(field, stored)
	local from, profile = string.match(field, '^([^/]+)/([^/]+)$')
	local head, of = string.match(stored, '^(%d+ (%d+) [^\n]*\n)')
	local poster = head and from and agent(from)
	if poster and poster[1] == of then rows[#rows + 1] = { from, ARGV[2], profile, head } end
	looked = looked + 1
	bytes = bytes + #stored
end

repeat
	local step = read('HSCAN', inbox, place ~= '' and place or '0', 'COUNT', STEP) or { '0', {} }
	for i = 1, #step[2], 2 do add(step[2][i], step[2][i + 1]) end
	place = step[1] ~= '0' and step[1] or ''
until place == '' or looked >= LOOKED or bytes >= READ
return { OK, read_epoch(), cursor, rows, place }
