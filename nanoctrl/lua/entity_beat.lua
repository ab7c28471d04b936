-- Only what is an entity or an agent is given a new end: any other key keeps the one it has, or none.
-- ARGV: keep, scope, type, id, ttl

-- A scope that has somebody is among the scopes already.
local function noted(index, scopes, member)
	if write('ZADD', index, text(now + tonumber(ARGV[5])), member) ~= 0 then write('SADD', scopes, ARGV[2]) end
end

local key = P .. ARGV[3] .. ':' .. ARGV[4]
local h = read('HMGET', key, 'info', 'addr')
if not h or not (h[1] or h[2]) then return { NOT_FOUND } end
redis.call('PEXPIRE', key, ARGV[5])
if h[2] and ARGV[3] == 'agent' then
	noted('nanoctrl:peers:' .. ARGV[2], 'nanoctrl:peer_scopes', ARGV[4])
elseif h[1] then
	noted('nanoctrl:entities:' .. ARGV[2], 'nanoctrl:entity_scopes', #ARGV[3] .. ':' .. ARGV[3] .. ARGV[4])
end
return { OK }
