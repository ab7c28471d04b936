-- Only the session that is still attached shortens the lease. ARGV: keep, grace, name, lease, secret hash, session
local name = ARGV[3]
local word, _, _, attached = holder(name, ARGV[4], ARGV[5])
if word ~= OK or attached ~= ARGV[6] then return { word } end
redis.call('HSET', agent_key(name), 'session', '')
local due, grace = tonumber(read('ZSCORE', DUE, name) or ''), now + tonumber(ARGV[2])
lease_ends(name, due and math.min(due, grace) or grace)
return { OK }
