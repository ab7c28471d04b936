-- ARGV: keep, ttl, name, lease, secret hash, session
local word, generation = holder(ARGV[3], ARGV[4], ARGV[5])
if word ~= OK then return { word } end
redis.call('HSET', agent_key(ARGV[3]), 'session', ARGV[6])
write('ZADD', DUE, text(now + tonumber(ARGV[2])), ARGV[3])
local h = agent(ARGV[3], 'acked')
return { OK, epoch(), counted(h[2]) or '0', generation, ARGV[4], 1 }
