-- What a probe of an engine's owner found. ARGV: keep, engine, the owner's id, alive or refused, whether it is known to be there
-- An owner that was seen alive and refuses is dead: all that it published goes. One that was never seen may be behind an address that is
-- not its own, so its values stay unless the caller knows better. Answers {OK, 1 if it was removed, else 0}, or {NOT_FOUND} when another
-- owner has the name.
local key = P .. 'engine:' .. ARGV[2]
local owner = read('HMGET', key, 'id', 'seen', 'place') or {}
if owner[1] ~= ARGV[3] then return { NOT_FOUND } end
if ARGV[4] == 'alive' then
	if not owner[2] then redis.call('HSET', key, 'seen', '1') end
	return { OK, 0 }
end
if not owner[2] and ARGV[5] ~= '1' then return { OK, 0 } end
redis.call('DEL', key)
redis.call('ZREM', P .. 'due', ARGV[2])
redis.call('ZREM', P .. 'due:' .. (owner[3] or ''), ARGV[2])
return { OK, 1 }
