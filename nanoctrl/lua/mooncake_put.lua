-- A value of a Mooncake engine. ARGV: keep, engine, field (rpc_meta, ram), value, how many engines there may be; of rpc_meta also the
-- owner's address, its port, the place where this address means something ('' is everywhere), a random id, how long after a put had an
-- owner probed another put may, and when the new owner is probed first.
-- With rpc_meta a life of the engine begins. While another owner has the name: {NAME_TAKEN, its address, its port, its id, whether it is
-- of the same place, whether it may be probed now}.
local engine, field = ARGV[2], ARGV[3]
local key, due = P .. 'engine:' .. engine, P .. 'due'
if redis.call('EXISTS', key) == 0 and redis.call('ZCARD', due) >= tonumber(ARGV[5]) then return { TOO_MANY } end
if field == 'ram' then
	redis.call('ZADD', due, 'NX', '+inf', engine)
	redis.call('HSET', key, 'ram', ARGV[4])
	return { OK }
end
local place = ARGV[8]
local owner = read('HMGET', key, 'rpc_meta', 'address', 'port', 'id', 'place', 'asked') or {}
local is_here = (owner[5] or '') == place
if owner[1] and (owner[2] ~= ARGV[6] or owner[3] ~= ARGV[7] or not is_here) then
	local may_probe = number(owner[6]) + tonumber(ARGV[10]) <= now
	if may_probe then redis.call('HSET', key, 'asked', text(now)) end
	return { NAME_TAKEN, owner[2] or '', owner[3] or '', owner[4] or '', is_here and 1 or 0, may_probe and 1 or 0 }
end
-- What an earlier life said of its memory must not be read by this one, which would publish it again.
redis.call('DEL', key)
redis.call('HSET', key, 'rpc_meta', ARGV[4], 'address', ARGV[6], 'port', ARGV[7], 'place', place, 'id', ARGV[9])
redis.call('ZADD', due, place == '' and text(now + tonumber(ARGV[11])) or '+inf', engine)
if place ~= '' then redis.call('ZADD', due .. ':' .. place, text(now + tonumber(ARGV[11])), engine) end
return { OK }
