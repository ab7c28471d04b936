-- Only the session that is still attached shortens the lease. ARGV: keep, grace, name, lease, secret hash, session
local name = ARGV[3]
local word, _, _, attached = holder(name, ARGV[4], ARGV[5])
if word ~= OK or attached ~= ARGV[6] then return { word } end
redis.call('HSET', agent_key(name), 'session', '')
local due = number(read('ZSCORE', DUE, name))
write('ZADD', DUE, text(math.min(due, now + tonumber(ARGV[2]))), name)
return { OK }
