-- Objects without their blobs, of one agent or of a page of agents. ARGV: keep, kind, agent ('' for a page), after, limit, the
-- most bytes, whether with the labels of the page's agents ('1': so), and to continue with an agent that had more than a batch:
-- its generation, and the cursor of its scan ('' and '' from the first). Answers as store_read_page() has it, with the owners
-- behind the rows, and {agent, generation, cursor} where the last agent has more. A caller that continues may get an object
-- twice, since Redis may scan it twice.
local cursor = last_event()
local names, next_name, generation, place = { ARGV[3] }, '', ARGV[8], ARGV[9]
if ARGV[3] == '' then
	names, next_name = page(ARGV[4], ARGV[5])
else
	local h = agent(ARGV[3])
	if not h then return { NOT_FOUND } end
	if generation ~= '' and h[1] ~= generation then return { PEER_CHANGED } end
end
-- The bytes that are read have a bound of their own, since blobs are read as well: for a page, and for one agent.
local PAGE_ROWS, PAGE_BYTES, PAGE_READ, AGENT_READ = 1024, 1048576, 4194304, 1048576
local STEP = 16 -- objects, about, which are in memory with their blobs
local fields = ARGV[7] == '1' and { 'incarnation', 'labels' } or { 'incarnation' }
local rows, owners, rest, bytes, looked = {}, {}, {}, 0, 0

local function is_full() return #rows >= PAGE_ROWS or bytes >= PAGE_BYTES or looked >= PAGE_READ end

local function add(name, h, all)
	for j = 1, #all, 2 do
		local v = object_without_blob(all[j + 1])
		looked = looked + #all[j + 1]
		if v then
			rows[#rows + 1] = { name, h[1], h[2] or '', all[j], v }
			bytes = bytes + ROW + #name + #all[j] + #v
		end
	end
end

for i, name in ipairs(names) do
	local h = agent(name, unpack(fields))
	local at, before = h and (place ~= '' and place or '0'), looked
	if h and fields[2] then
		owners[#owners + 1] = { name, h[3] or '' }
		bytes = bytes + ROW + #name + #(h[3] or '')
	end
	while at and not is_full() and looked - before < AGENT_READ do
		local step = read('HSCAN', owned_key(ARGV[2], h[1]), at, 'COUNT', STEP)
		if step then add(name, h, step[2]) end
		if bytes > tonumber(ARGV[6]) then return { TOO_LARGE } end
		at = step and step[1] ~= '0' and step[1]
	end
	if at then rest = { name, h[1], at } end
	-- An answer stays bounded: the rest of the page comes with the next.
	if (at or is_full()) and i < #names then
		next_name = name
		break
	end
end
return { OK, read_epoch(), cursor, text(now), next_name, skipped, rows, owners, rest }
