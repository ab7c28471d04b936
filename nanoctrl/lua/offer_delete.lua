-- ARGV: keep, name, lease, secret hash, to, profile
local name, to, profile = ARGV[2], ARGV[5], ARGV[6]
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local peer = agent(to)
if not peer then return { OK } end
local inbox, field = owned_key('inbox', peer[1]), name .. '/' .. profile
local stored = read('HGET', inbox, field)
if stored then
	gate()
	redis.call('HDEL', inbox, field)
	write('SREM', owned_key('sent', generation), peer[1] .. ' ' .. field)
	emit('offer_gone', name, generation, incarnation, profile, to, string.match(stored, '^(%d+) ') or '0')
end
return { OK }
