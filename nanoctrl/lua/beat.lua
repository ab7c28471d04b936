-- A lease lasts as long as its agent was told, or as it is told now if that is longer.
-- ARGV: keep, ttl, then for each beat: name, lease, secret hash, session, acknowledged event by its epoch and id
local ttl, e = tonumber(ARGV[2]), read_epoch()
local results = {}
for i = 3, #ARGV, 6 do
	local name, session, acked = ARGV[i], ARGV[i + 3], ARGV[i + 5]
	local word, _, _, attached, lasts = holder(name, ARGV[i + 1], ARGV[i + 2])
	if word == OK and session ~= '' and session ~= attached then word = REPLACED end
	if word == OK then
		lasts = lasts ~= ARGV[2] and lasting(lasts, ttl) or ttl
		if lasts < ttl then
			redis.call('HSET', agent_key(name), 'ttl', ARGV[2])
			lasts = ttl
		end
		write('ZADD', DUE, text(now + lasts), name)
		if acked ~= '0' and ARGV[i + 4] == e then redis.call('HSET', agent_key(name), 'acked', acked) end
	end
	results[#results + 1] = word
end
return { OK, e, results, skipped }
