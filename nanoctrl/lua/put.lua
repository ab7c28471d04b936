-- ARGV: keep, name, lease, secret hash, kind, object, revision, doc, blob, max objects
local name, kind, object, revision = ARGV[2], ARGV[5], ARGV[6], tonumber(ARGV[7])
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local key = owned_key(kind, generation)
local stored = read('HGET', key, object)
local made, gone = last_orders(kind, generation, object, stored)
if revision < made or revision <= gone then return { STALE } end
if stored and revision == made then return { OK, 0 } end
if not stored and n_owned(generation) >= tonumber(ARGV[10]) then return { TOO_MANY } end
redis.call('HSET', key, object, ARGV[7] .. ' ' .. text(now) .. ' ' .. #ARGV[8] .. '\n' .. ARGV[8] .. ARGV[9])
if gone > 0 then redis.call('ZREM', order_key(kind, generation), '-' .. object) end
if kind == 'region' then emit('region', name, generation, incarnation, object, '', ARGV[7]) end
return { OK, stored and 0 or 1 }
