-- Mooncake engines whose owners are to be probed now; no replica gets them again before their period is over. ARGV: keep, period, how many
-- Answers {OK, {{engine, address, port, id, seen}, ...}}
local due, found = P .. 'due', {}
for _, engine in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, tonumber(ARGV[3]))) do
	local owner = read('HMGET', P .. 'engine:' .. engine, 'address', 'port', 'id', 'seen') or {}
	if owner[1] and owner[2] and owner[3] then
		redis.call('ZADD', due, text(now + tonumber(ARGV[2])), engine)
		found[#found + 1] = { engine, owner[1], owner[2], owner[3], owner[4] or '' }
	else
		redis.call('ZADD', due, '+inf', engine)
	end
end
return { OK, found }
