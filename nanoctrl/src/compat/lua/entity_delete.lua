-- ARGV: keep, scope, type, id
local type, id = ARGV[3], ARGV[4]
local key = P .. type .. ':' .. id
local kind = read('HGET', key, 'info') and (read('HGET', key, 'kind') or '')
if not kind then return { OK } end
local revision = text(number(write('INCR', P .. 'nano_meta:' .. type .. '_revision')))
redis.call('DEL', key)
write('ZREM', 'nanoctrl:entities:' .. ARGV[2], #type .. ':' .. type .. id)
write('ZREM', 'nanoctrl:types:' .. ARGV[2], #type .. ':' .. type .. id)
write('HDEL', 'nanoctrl:kinds:' .. ARGV[2], #type .. ':' .. type .. id)
redis.call('PUBLISH', P .. 'nano_events:' .. type .. '_update', '{"entity_id":' .. cjson.encode(id) .. ',"entity_type":'
	.. cjson.encode(type) .. ',"event_type":"REMOVE","kind":' .. cjson.encode(kind) .. ',"revision":' .. revision
	.. ',"timestamp":"' .. clock[1] .. '"}')
return { OK }
