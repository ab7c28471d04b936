-- The snapshot of an agent, under the key that agents of DLSlime's NanoCtrl use. ARGV: keep, scope ('' for none), name, lease,
-- secret hash, ttl, document
local scope, name = ARGV[2], ARGV[3]
local word = holder(name, ARGV[4], ARGV[5])
if word ~= OK then return { word } end
local key = snapshot_key(scope, name)
redis.call('SET', key, SNAPSHOT_HEAD .. text(now) .. ',' .. string.sub(ARGV[7], 2), 'PX', ARGV[6])
-- Lists are read from here, so that they look at no other keys.
local root = place()
write('ZADD', root .. 'nanoctrl:snapshots:' .. scope, 0, key)
write('SADD', root .. 'nanoctrl:snapshot_scopes', scope)
return { OK }
