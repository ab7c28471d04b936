-- Objects without their blobs, of one agent or of a page of agents.
-- ARGV: keep, kind, agent ('' for a page), after, limit, the most bytes, whether with the labels of the page's agents ('1': so)
local cursor = last_event()
local names, next_name = { ARGV[3] }, ''
if ARGV[3] == '' then
	names, next_name = page(ARGV[4], ARGV[5])
elseif not agent(ARGV[3]) then
	return { NOT_FOUND }
end
-- What is read for a page has a bound of its own, since the blobs are read as well.
local PAGE_ROWS, PAGE_BYTES, PAGE_READ = 1024, 1048576, 4194304
local fields = ARGV[7] == '1' and { 'incarnation', 'labels' } or { 'incarnation' }
local rows, owners, bytes, looked = {}, {}, 0, 0
-- A portion of what an agent has: with their blobs all of them are more than is to be in memory at once.
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
	local at = h and '0'
	if h and fields[2] then
		owners[#owners + 1] = { name, h[3] or '' }
		bytes = bytes + ROW + #name + #(h[3] or '')
	end
	while at do
		local portion = read('HSCAN', owned_key(ARGV[2], h[1]), at, 'COUNT', 64)
		if portion then add(name, h, portion[2]) end
		if bytes > tonumber(ARGV[6]) then return { TOO_LARGE } end
		at = portion and portion[1] ~= '0' and portion[1]
	end
	-- An answer stays bounded: the rest of the page comes with the next.
	if (#rows >= PAGE_ROWS or bytes >= PAGE_BYTES or looked >= PAGE_READ) and i < #names then
		next_name = name
		break
	end
end
return { OK, read_epoch(), cursor, text(now), next_name, skipped, rows, owners }
