-- ARGV: keep, ttl, name, lease, secret hash, session, which of this lease's it is by what the agent counts (0: it does not say)
local name, order = ARGV[3], ARGV[7]
local word, generation = holder(name, ARGV[4], ARGV[5])
if word ~= OK then return { word } end
local h = agent(name, 'acked', 'epoch', 'opened')
if order ~= '0' then
	-- It was given up: the agent has opened another since. Damaged, the number says nothing.
	if number(order) < number(counted(h[4])) then return { STALE } end
	redis.call('HSET', agent_key(name), 'opened', order)
end
redis.call('HSET', agent_key(name), 'session', ARGV[6], 'ttl', ARGV[2])
lease_ends(name, now + tonumber(ARGV[2]))
-- In the epoch of its registration: in a later one, what it acknowledged may not be what there is behind that id now.
return { OK, counted(h[3]) or epoch(), counted(h[2]) or '0', generation, ARGV[4], 1 }
