-- ARGV: keep, name, lease, secret hash, revision, then field, value, ...
local name, revision = ARGV[2], tonumber(ARGV[5])
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local stored = number(agent(name, 'revision')[2])
if revision < stored then return { STALE } end
if revision == stored then return { OK } end
redis.call('HSET', agent_key(name), 'revision', ARGV[5], unpack(ARGV, 6))
emit('changed', name, generation, incarnation, '', '', ARGV[5])
return { OK }
