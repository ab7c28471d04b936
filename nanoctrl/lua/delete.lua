-- ARGV: keep, name, lease, secret hash, kind, object
local name, kind, object = ARGV[2], ARGV[5], ARGV[6]
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local key = owned_key(kind, generation)
local stored = read('HGET', key, object)
if stored then
	gate()
	redis.call('HDEL', key, object)
	if kind == 'region' then
		emit('region_gone', name, generation, incarnation, object, '', string.match(stored, '^(%d+) ') or '0')
	end
end
return { OK }
