-- ARGV: keep, scope, type, id, ttl, kind, endpoint, metadata, resource, info, the event up to its revision
local type, id, ttl = ARGV[3], ARGV[4], ARGV[5]
local key = P .. type .. ':' .. id
local there = redis.call('TYPE', key).ok
if there ~= 'none' and (there ~= 'hash' or redis.call('HEXISTS', key, 'info') == 0) then return { NAME_TAKEN } end

local revision = text(write('INCR', P .. 'nano_meta:' .. type .. '_revision'))
redis.call('HSET', key, 'entity_type', type, 'entity_id', id, 'kind', ARGV[6], 'endpoint', ARGV[7], 'metadata', ARGV[8],
	'resource', ARGV[9], 'info', ARGV[10])
redis.call('PEXPIRE', key, ttl)
write('ZADD', 'nanoctrl:entities:' .. ARGV[2], text(now + tonumber(ttl)), #type .. ':' .. type .. id)
write('SADD', 'nanoctrl:entity_scopes', ARGV[2])
redis.call('PUBLISH', P .. 'nano_events:' .. type .. '_update', ARGV[11] .. ',"revision":' .. revision .. ',"timestamp":'
	.. clock[1] .. '}')
return { OK }
