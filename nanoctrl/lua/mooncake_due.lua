-- Mooncake engines whose owners are to be probed now; no replica gets them again before their period is over. Those of a place are for
-- replicas at that place. ARGV: keep, period, how many, the place of this replica
-- Answers {OK, {{engine, address, port, id, seen}, ...}}
local found = {}

local function take(due)
	for _, engine in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, tonumber(ARGV[3]) - #found)) do
		local owner = read('HMGET', P .. 'engine:' .. engine, 'address', 'port', 'id', 'seen') or {}
		if owner[1] and owner[2] and owner[3] then
			redis.call('ZADD', due, text(now + tonumber(ARGV[2])), engine)
			found[#found + 1] = { engine, owner[1], owner[2], owner[3], owner[4] or '' }
		else
			redis.call('ZADD', due, '+inf', engine)
		end
	end
end

take(P .. 'due:' .. ARGV[4])
take(P .. 'due')
return { OK, found }
