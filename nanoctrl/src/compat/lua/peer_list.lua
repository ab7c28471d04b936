-- A batch of the agents of a scope. Their index is in the order of their ends, in which each heartbeat moves one, so a scope
-- with more than a batch is scanned: agents that exist all the time are found, some of them twice, also when others come and go
-- between two batches. ARGV: keep, scope, the cursor to continue from ('' when the scan is over, or has not begun), and names
-- that the batch before had no room for. Answers {OK, {{name, addr, device, ib_port, link_type, resource, topology,
-- memory_keys}, ...}, how many were skipped, the cursor to continue from, {name, ...}}: where either of both is not empty there
-- is more.
local ROW_MAX = 33554432 -- any program may have written it; a longer one counts as none
local LOOKED, BYTES = 256, 262144 -- agents, and bytes of them, that end a batch: also of those that are left out
local STEP = 64 -- agents of a step of the scan, about

local index, place = index_key(ARGV[2]), ARGV[3]
local rows, left, bytes, looked = {}, {}, 0, 0

local function is_full() return looked >= LOOKED or bytes >= BYTES end

local function take(name)
	if is_full() then
		left[#left + 1] = name
		return
	end
	looked = looked + 1
	local h = read('HMGET', P .. 'agent:' .. name, 'addr', 'device', 'ib_port', 'link_type', 'resource', 'topology', 'memory_keys')
	if not (h and h[1]) then return end
	local row, own = { name }, ROW
	for i = 1, 7 do row[i + 1] = h[i] or '' end
	for i = 1, 8 do own = own + #row[i] end
	bytes = bytes + own
	if own > ROW_MAX then
		skipped = skipped + 1
	else
		rows[#rows + 1] = row
	end
end

for i = 4, #ARGV do take(ARGV[i]) end
if place == '' and #ARGV == 3 then
	-- The beginning: few are all in this batch, or in this one and what it has no room for.
	if number(read('ZCARD', index)) > LOOKED then
		place = '0'
	else
		for _, name in ipairs(read('ZRANGE', index, 0, -1) or {}) do take(name) end
	end
end
while place ~= '' and not is_full() do
	local step = read('ZSCAN', index, place, 'COUNT', STEP) or { '0', {} }
	place = step[1] ~= '0' and step[1] or ''
	for i = 1, #step[2], 2 do take(step[2][i]) end
end
return { OK, rows, skipped, place, left }
