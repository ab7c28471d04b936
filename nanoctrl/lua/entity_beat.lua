-- Only what is an entity or an agent is given a new end: any other key keeps the one it has, or none.
-- ARGV: keep, scope, ttl, then of each: type, id, whether its index is to learn of it (0 or 1). Answers the words of all
-- as one text of digits, as entity_put does.
local DONE, ABSENT = '0', '1' -- OK, NOT_FOUND
local scope, ttl = ARGV[2], ARGV[3]

-- A scope that has somebody is among the scopes already. Few beats need to know the time.
local function note(index, scopes, member)
	local clock = redis.call('TIME')
	local ends = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ttl)
	if write('ZADD', index .. scope, text(ends), member) ~= 0 then write('SADD', scopes, scope) end
end

local function beat(type, id, noting)
	local key = P .. type .. ':' .. id
	local agent = type == 'agent' and read('HEXISTS', key, 'addr') == 1
	if not agent and read('HEXISTS', key, 'info') ~= 1 then
		if read('HEXISTS', key, 'addr') ~= 1 then return ABSENT end
		noting = '0' -- in no index
	end
	redis.call('PEXPIRE', key, ttl)
	if noting == '1' and agent then
		note('nanoctrl:peers:', 'nanoctrl:peer_scopes', id)
	elseif noting == '1' then
		note('nanoctrl:entities:', 'nanoctrl:entity_scopes', #type .. ':' .. type .. id)
		write('ZADD', 'nanoctrl:types:' .. scope, 0, #type .. ':' .. type .. id)
	end
	return DONE
end

local words = {}
for i = 4, #ARGV, 3 do words[#words + 1] = beat(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return { OK, table.concat(words) }
