-- ARGV: keep, scope, ttl, type, then whether the index is updated for each also if it existed: a digit (0 or 1) for each, or
-- nothing for none; then of each: id, kind, endpoint, metadata, resource, info, the event up to the info, which is its last
-- member but for the revision and the time. Answers OK, or { OK, the index of each whose name another key has }: most time of a
-- call goes into what it allocates, so functions and tables are made only for rare cases. Revisions are taken before it is
-- known how many are needed, and those that are not needed are given back: the counter exists also when all were refused.
local scope, ttl, type, due = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call, try = redis.call, redis.pcall
local clock = call('TIME')
local counter, n = P .. 'nano_meta:' .. type .. '_revision', (#ARGV - 5) / 7
local revision = (write('INCRBY', counter, n) or n) - n
local prefix, channel, tail = P .. type .. ':', P .. 'nano_events:' .. type .. '_update', ',"timestamp":' .. clock[1] .. '}'
local answer, soonest = OK, nil

for i = 6, #ARGV, 7 do
	local id, info = ARGV[i], ARGV[i + 5]
	local key = prefix .. id
	local there = try('HEXISTS', key, 'info')
	if there == 1 or there == 0 and call('EXISTS', key) == 0 then
		call('HSET', key, 'entity_type', type, 'entity_id', id, 'kind', ARGV[i + 1], 'endpoint', ARGV[i + 2],
			'metadata', ARGV[i + 3], 'resource', ARGV[i + 4], 'info', info)
		call('PEXPIRE', key, ttl)
		if there == 0 or due ~= '' and string.sub(due, (i + 1) / 7, (i + 1) / 7) == '1' then
			local member = #type .. ':' .. type .. id
			soonest = soonest or string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ttl))
			write('ZADD', 'nanoctrl:entities:' .. scope, soonest, member)
			write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
			write('HSET', 'nanoctrl:kinds:' .. scope, member, ARGV[i + 1])
		end
		revision = revision + 1
		call('PUBLISH', channel, ARGV[i + 6] .. info .. ',"revision":' .. string.format('%d', revision) .. tail)
	else
		if there ~= 0 then check_junk(there.err) end
		write('DECR', counter)
		if answer == OK then answer = { OK } end
		answer[#answer + 1] = (i + 1) / 7
	end
end
if soonest then -- as note_end
	write('ZADD', 'nanoctrl:entity_ends', 'LT', soonest, scope)
	write('SADD', 'nanoctrl:entity_scopes', scope)
end
return answer
