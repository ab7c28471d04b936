-- ARGV: keep, name, lease, secret hash, to, profile, connection epoch, how many are remembered
local name, to, profile, attempt = ARGV[2], ARGV[5], ARGV[6], tonumber(ARGV[7])
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local peer = agent(to)
local inbox, field = peer and owned_key('inbox', peer[1]), name .. '/' .. profile
local stored = peer and read('HGET', inbox, field)
local is_ours = stored and string.match(stored, '^%d+ (%d+) ') == generation
local made, gone = last_orders('offer', generation, to .. '/' .. profile, is_ours and stored)
if attempt < made or attempt < gone then return { STALE } end
if not is_ours and attempt == gone then return { OK } end
note_order('offer', generation, to .. '/' .. profile, '-', ARGV[7], ARGV[8])
if is_ours then
	redis.call('HDEL', inbox, field)
	write('SREM', owned_key('sent', generation), peer[1] .. ' ' .. field)
	emit('offer_gone', name, generation, incarnation, profile, to, ARGV[7])
end
return { OK }
