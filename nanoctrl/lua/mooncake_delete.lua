-- Removes a value of a Mooncake engine; with rpc_meta its owner goes as well, and with the last value the engine. ARGV: keep, engine, field
local engine, field = ARGV[2], ARGV[3]
local key, due = P .. 'engine:' .. engine, P .. 'due'
local place = read('HGET', key, 'place') or ''
if redis.call('HDEL', key, field) == 0 then return { NOT_FOUND } end
if field == 'rpc_meta' then
	redis.call('HDEL', key, 'address', 'port', 'place', 'id', 'seen', 'asked')
	redis.call('ZADD', due, '+inf', engine)
	redis.call('ZREM', due .. ':' .. place, engine)
end
if redis.call('HEXISTS', key, 'rpc_meta') == 0 and redis.call('HEXISTS', key, 'ram') == 0 then
	redis.call('DEL', key)
	redis.call('ZREM', due, engine)
end
return { OK }
