-- ARGV: keep, ttl, name, lease, secret hash, session
local word, generation = holder(ARGV[3], ARGV[4], ARGV[5])
if word ~= OK then return { word } end
redis.call('HSET', agent_key(ARGV[3]), 'session', ARGV[6])
write('ZADD', DUE, text(now + tonumber(ARGV[2])), ARGV[3])
-- In the epoch of its registration: in a later one, what it acknowledged may not be what there is behind that id now.
local h = agent(ARGV[3], 'acked', 'epoch')
return { OK, counted(h[3]) or epoch(), counted(h[2]) or '0', generation, ARGV[4], 1 }
