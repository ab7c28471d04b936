-- ARGV: keep, name, lease, secret hash, to, profile, connection epoch, incarnation of to ('' for any), blob, max objects, max offers
local name, to, profile, attempt, want, blob = ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local word, generation, incarnation = holder(name, ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local peer = agent(to, 'incarnation')
if not peer then return { PEER_NOT_FOUND } end
local peer_incarnation = peer[2] or ''
if want ~= '' and want ~= peer_incarnation then return { PEER_CHANGED } end

local inbox, field, sent = owned_key('inbox', peer[1]), name .. '/' .. profile, owned_key('sent', generation)
local head = attempt .. ' ' .. generation .. ' ' .. incarnation .. ' ' .. peer[1] .. ' ' .. peer_incarnation .. '\n'
local row = { name, to, profile, head }
local stored = read('HGET', inbox, field)
local is_ours = stored and string.match(stored, '^%d+ (%d+) ') == generation
local made, gone = last_orders('offer', generation, to .. '/' .. profile, is_ours and stored)
if tonumber(attempt) < made or tonumber(attempt) <= gone then return { STALE } end
if is_ours then
	if tonumber(attempt) == made then
		if stored ~= head .. blob then return { STALE } end
		return { OK, read_epoch(), last_event(), { row } }
	end
elseif n_owned(generation) >= tonumber(ARGV[10]) then
	return { TOO_MANY }
elseif not stored and number(read('HLEN', inbox)) >= tonumber(ARGV[11]) then
	return { INBOX_FULL }
end
redis.call('HSET', inbox, field, head .. blob)
note_order('offer', generation, to .. '/' .. profile, '+', attempt, ARGV[10])
write('SADD', sent, peer[1] .. ' ' .. field)
emit('offer', name, generation, incarnation, profile, to, attempt)
return { OK, read_epoch(), last_event(), { row } }
