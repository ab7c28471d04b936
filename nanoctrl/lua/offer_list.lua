-- ARGV: keep, name, lease, secret hash
local cursor = last_event()
local word, generation = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local inbox, rows = owned_key('inbox', generation), {}
local fields = read('HKEYS', inbox) or {}

local function add(field, stored)
	local from, profile = string.match(field, '^([^/]+)/([^/]+)$')
	local head, of = string.match(stored, '^(%d+ (%d+) [^\n]*\n)')
	local poster = head and from and agent(from)
	if poster and poster[1] == of then rows[#rows + 1] = { from, ARGV[2], profile, head } end
end

-- Never all of the descriptors at once.
local PORTION = 100
for i = 1, #fields, PORTION do
	local last = math.min(i + PORTION - 1, #fields)
	local stored = redis.call('HMGET', inbox, unpack(fields, i, last))
	for j = i, last do add(fields[j], stored[j - i + 1]) end
end
return { OK, read_epoch(), cursor, rows }
