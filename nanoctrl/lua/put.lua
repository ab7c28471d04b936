-- ARGV: keep, name, lease, secret hash, kind, object, revision, doc, blob, max objects
local name, kind, object, revision = ARGV[2], ARGV[5], ARGV[6], ARGV[7]
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local key = owned_key(kind, generation)
local stored = read('HGET', key, object)
if stored then
	local have = number(string.match(stored, '^(%d+) '))
	if have > tonumber(revision) then return { STALE } end
	if have == tonumber(revision) then return { OK, 0 } end
elseif n_owned(generation) >= tonumber(ARGV[10]) then
	return { TOO_MANY }
end
write('HSET', key, object, revision .. ' ' .. text(now) .. ' ' .. #ARGV[8] .. '\n' .. ARGV[8] .. ARGV[9])
if kind == 'region' then emit('region', name, generation, incarnation, object, '', revision) end
return { OK, stored and 0 or 1 }
