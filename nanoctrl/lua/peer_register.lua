-- An agent of DLSlime. ARGV: keep, scope, alias ('' for none), whether it is given (0|1), prefix of a name, ttl, then
-- fields and values of the hash. Answers {OK, name}.
local scope, name, ttl = ARGV[2], ARGV[3], ARGV[6]
if ARGV[4] == '1' then
	if redis.call('EXISTS', P .. 'agent:' .. name) == 1 then return { NAME_TAKEN } end
else
	repeat name = ARGV[5] .. '-' .. string.format('%x', write('INCR', P .. 'agent_name_counter'))
	until redis.call('EXISTS', P .. 'agent:' .. name) == 0
end
local key = P .. 'agent:' .. name
redis.call('HSET', key, 'updated_at', clock[1], 'memory_keys', '[]', unpack(ARGV, 7))
redis.call('PEXPIRE', key, ttl)
write('ZADD', 'nanoctrl:peers:' .. scope, text(now + tonumber(ttl)), name)
write('SADD', 'nanoctrl:peer_scopes', scope)
return { OK, name }
