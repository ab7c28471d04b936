-- Only what is an entity or an agent is given a new end: any other key keeps the one it has, or none.
-- ARGV: keep, scope, ttl, type, then whether the index is to learn of each: a digit (0 or 1) for each, or nothing for none;
-- then the ids. Answers OK, or { OK, the place of each that is not there }. Functions and tables are made for what is rare, as
-- in entity_put.
local scope, ttl, type, due = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call, try = redis.call, redis.pcall
local prefix, answer = P .. type .. ':', OK

for i = 6, #ARGV do
	local id = ARGV[i]
	local key = prefix .. id
	local agent = type == 'agent' and try('HEXISTS', key, 'addr') == 1
	local entity = not agent and try('HEXISTS', key, 'info') == 1
	if agent or entity or try('HEXISTS', key, 'addr') == 1 then
		call('PEXPIRE', key, ttl)
		if (agent or entity) and due ~= '' and string.sub(due, i - 5, i - 5) == '1' then
			-- A scope that has an entity is among the scopes already. Few heartbeats need to know the time.
			local clock = call('TIME')
			local ends = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ttl))
			local function note(index, kind, member)
				if write('ZADD', index .. scope, ends, member) == 0 then return end
				write('ZADD', 'nanoctrl:' .. kind .. '_ends', 'LT', ends, scope)
				write('SADD', 'nanoctrl:' .. kind .. '_scopes', scope)
			end
			if agent then
				note('nanoctrl:peers:', 'peer', id)
			else
				local member = #type .. ':' .. type .. id
				local kind = call('HSTRLEN', key, 'kind') <= 65536 and call('HGET', key, 'kind') -- as note_kind
				note('nanoctrl:entities:', 'entity', member)
				write('ZADD', 'nanoctrl:types:' .. scope, 0, member)
				write('HSET', 'nanoctrl:kinds:' .. scope, member, kind or '')
			end
		end
	else
		if answer == OK then answer = { OK } end
		answer[#answer + 1] = i - 5
	end
end
return answer
