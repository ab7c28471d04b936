-- ARGV: keep, ttl, name, incarnation, owner hash, secret hash, again (0|1), order, address, labels, services, attributes
local ttl, name, incarnation, owner, secret, again = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local order = tonumber(ARGV[8])
local held = agent(name, 'incarnation', 'owner', 'lease', 'acked', 'epoch', 'ousted', 'ttl', 'order')
local resumed, taken, ousted, generation = false, '', held and held[7] or '', nil

if held and held[3] ~= owner then
	return { NAME_TAKEN, text(now), agent_row(name, read_epoch()), lasting(held[8], ttl) }
end
-- A superseded registration stays superseded, also when it is repeated because its answer was lost.
if held and held[2] ~= incarnation and (again == '1' or string.find(' ' .. ousted, ' ' .. incarnation .. ' ', 1, true)) then
	return { SUPERSEDED }
end
-- The same process may say it again; a name that was given back, and one that another process holds, is for a later registration.
local last = number(counted(held and held[9] or not held and read('GET', left_key(name, owner))))
if order < last or order == last and not (held and held[2] == incarnation) then return { STALE, text(last) } end

local lease = gate()
local e = epoch()
if held then
	if held[2] == incarnation then
		resumed, generation = true, held[1]
	else
		taken = held[4] or ''
		-- The newest first, each with a blank behind it: a name that is cut off matches no agent.
		ousted = string.sub((held[2] or '') .. ' ' .. ousted, 1, 512)
		finish(name, held[1])
	end
end

local cursor = last_event()
if not resumed then
	generation = lease
	redis.call('UNLINK', agent_key(name))
	redis.call('HSET', agent_key(name), 'taken', taken, 'ousted', ousted, 'registered_at', text(now), 'epoch', e,
		'acked', cursor)
elseif held[6] ~= e then
	redis.call('HSET', agent_key(name), 'epoch', e, 'acked', cursor)
end
redis.call('HSET', agent_key(name), 'generation', generation, 'incarnation', incarnation, 'owner', owner,
	'lease', lease, 'secret', secret, 'ttl', ttl, 'session', '', 'opened', '0', 'order', ARGV[8], 'address', ARGV[9], 'labels', ARGV[10],
	'services', ARGV[11], 'attributes', ARGV[12], 'revision', '0')
lease_ends(name, now + tonumber(ttl))
write('ZADD', NAMES, 0, name)
if resumed then
	emit('changed', name, generation, incarnation, '', '', '0')
else
	emit('registered', name, generation, incarnation, '', '', '0')
end
return { OK, e, cursor, generation, lease, resumed and 1 or 0 }
