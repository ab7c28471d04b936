-- Only what is an entity or an agent is given a new end: any other key keeps the one it has, or none.
-- ARGV: keep, scope, type, id, ttl
local key = P .. ARGV[3] .. ':' .. ARGV[4]
local h = read('HMGET', key, 'info', 'addr')
if not h or not (h[1] or h[2]) then return { NOT_FOUND } end
redis.call('PEXPIRE', key, ARGV[5])
if h[2] and ARGV[3] == 'agent' then
	write('ZADD', 'nanoctrl:peers:' .. ARGV[2], text(now + tonumber(ARGV[5])), ARGV[4])
	write('SADD', 'nanoctrl:peer_scopes', ARGV[2])
elseif h[1] then
	write('ZADD', 'nanoctrl:entities:' .. ARGV[2], text(now + tonumber(ARGV[5])), #ARGV[3] .. ':' .. ARGV[3] .. ARGV[4])
	write('SADD', 'nanoctrl:entity_scopes', ARGV[2])
end
return { OK }
