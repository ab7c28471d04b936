-- A batch of the entities of a scope, in the order of their names: an entity that exists all the time is in exactly one batch,
-- also when others come and go between two. ARGV: keep, scope, type, kind, whether the type and whether the kind is asked for
-- (0 or 1), the member to continue behind ('' from the first). Answers {OK, {info, ...}, how many were skipped, the member to
-- continue behind ('' at the end)}.
local INFO_MAX = 33554432 -- as in entity_get
local LOOKED, BYTES = 256, 262144 -- entities, and bytes of their infos, that end a batch: also of those that are left out

-- Those of one type stand together where all scores are 0; no name has the byte 255.
local prefix = ARGV[5] == '1' and #ARGV[3] .. ':' .. ARGV[3]
local from = ARGV[7] ~= '' and '(' .. ARGV[7] or prefix and '[' .. prefix or '-'
local found = read('ZRANGEBYLEX', 'nanoctrl:types:' .. ARGV[2], from, prefix and '(' .. prefix .. '\255' or '+', 'LIMIT', 0, LOOKED)
	or {}

local infos, bytes, behind = {}, 0, #found == LOOKED and found[LOOKED] or ''
for i, member in ipairs(found) do
	local type, id = two_of(member)
	if type then
		local h = read('HMGET', P .. type .. ':' .. id, 'info', 'kind')
		if h and h[1] then bytes = bytes + ROW + #h[1] end
		if h and h[1] and #h[1] > INFO_MAX then
			skipped = skipped + 1
		elseif h and h[1] and (ARGV[6] == '0' or h[2] == ARGV[4]) then
			infos[#infos + 1] = h[1]
		end
	end
	if bytes >= BYTES and i < #found then
		behind = member
		break
	end
end
return { OK, infos, skipped, behind }
