-- The key goes with its agent. ARGV: keep, scope, agent, name, value
local key = P .. 'mr:' .. ARGV[3] .. ':' .. ARGV[4]
redis.call('SET', key, ARGV[5])
write('SADD', owned_set(ARGV[2], ARGV[3]), key)
expect(ARGV[2], ARGV[3])
return { OK }
