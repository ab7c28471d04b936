-- ARGV: keep, name, lease, secret hash, kind, object, revision, how many withdrawals are remembered
local name, kind, object, revision = ARGV[2], ARGV[5], ARGV[6], tonumber(ARGV[7])
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local key = owned_key(kind, generation)
local stored = read('HGET', key, object)
local made, gone = last_orders(kind, generation, object, stored)
if revision < made or revision < gone then return { STALE } end
if not stored and revision == gone then return { OK } end
note_order(kind, generation, object, '-', ARGV[7], ARGV[8])
if stored then
	redis.call('HDEL', key, object)
	if kind == 'region' then emit('region_gone', name, generation, incarnation, object, '', ARGV[7]) end
end
return { OK }
