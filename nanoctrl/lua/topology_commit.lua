-- Keeps what an expansion came to. ARGV: keep, the revision and the expansion that it began from, the
-- event that its agents are as of (epoch and id), n, then n times an agent and its list ('': it has
-- none any more); then topologies and what became of each.
-- Answers {OK, number of this expansion, how many lists changed}, or {STALE}: another replica was faster, or topologies changed.
local numbers, wanted, reports = P .. 'topology', P .. 'wanted', P .. 'topology_reports'
local have = read('HMGET', numbers, 'revision', 'expanded', 'seen') or {}
local expanded = number(counted(have[2]))
if (counted(have[1]) or '0') ~= ARGV[2] or expanded ~= tonumber(ARGV[3]) then return { STALE } end
local seen_epoch, seen = string.match(have[3] or '', '^(%d+):(%d+)$')
if seen_epoch == ARGV[4] and tonumber(seen) > tonumber(ARGV[5]) then return { STALE } end

local last = 6 + 2 * tonumber(ARGV[6])
local mine, changed, begun = text(math.max(tonumber(micros), expanded + 1)), 0, false
local function begin()
	if not begun then gate() end
	begun = true
end
for i = 7, last, 2 do
	local stored = read('HGET', wanted, ARGV[i])
	local list = stored and string.match(stored, '^%d+\n(.*)$') or ''
	if list ~= ARGV[i + 1] then
		begin()
		if ARGV[i + 1] == '' then
			redis.call('HDEL', wanted, ARGV[i])
		else
			redis.call('HSET', wanted, ARGV[i], mine .. '\n' .. ARGV[i + 1])
		end
		emit('wanted', ARGV[i], '0', '', '', ARGV[i], mine)
		changed = changed + 1
	end
end
for i = last + 1, #ARGV, 2 do
	if read('HGET', reports, ARGV[i]) ~= ARGV[i + 1] and read('HEXISTS', P .. 'topologies', ARGV[i]) == 1 then
		begin()
		redis.call('HSET', reports, ARGV[i], ARGV[i + 1])
	end
end
if changed > 0 then
	redis.call('HSET', numbers, 'expanded', mine, 'seen', ARGV[4] .. ':' .. ARGV[5])
	expanded = mine
end
-- Nothing is left to look after here.
if redis.call('EXISTS', P .. 'topologies', wanted) == 0 then
	local root, scope = place()
	read('SREM', root .. 'nanoctrl:topology_scopes', scope)
	redis.call('UNLINK', reports)
	if number(read('PTTL', numbers)) < 0 then read('PEXPIRE', numbers, 3600000) end
end
return { OK, text(tonumber(expanded)), changed }
