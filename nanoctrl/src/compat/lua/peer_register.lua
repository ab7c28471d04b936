-- An agent of DLSlime. ARGV: keep, scope, alias ('' for none), whether it is given (0|1), prefix of a name, ttl, then
-- fields and values of the hash. Answers {OK, name, how many were skipped}; with a fourth, 1, where it is to be asked again, since the
-- former agent of this name left very much.
local scope, name, ttl = ARGV[2], ARGV[3], tonumber(ARGV[6])

-- Another server's may be new to the lists. One that is there without an end of its own gets one: its name is not taken
-- for ever.
local function taken(key)
	if redis.call('EXISTS', key) == 0 then return false end
	if read('HGET', key, 'addr') then
		local left = redis.call('PTTL', key)
		if left == -1 then
			redis.call('PEXPIRE', key, AGENT_MS)
			left = AGENT_MS
		end
		ends_in(scope, name, left)
	end
	return true
end

if ARGV[4] == '1' then
	if taken(P .. 'agent:' .. name) then return { NAME_TAKEN } end
else
	repeat name = ARGV[5] .. '-' .. string.format('%x', redis.call('INCR', P .. 'agent_name_counter'))
	until redis.call('EXISTS', P .. 'agent:' .. name) == 0
end

local life
for i = 7, #ARGV, 2 do
	if ARGV[i] == 'resource' then life = life_in(ARGV[i + 1]) end
end

-- A former agent of this name whose end was not noticed yet leaves nothing to this one. Messages to a name that is only
-- expected stay, and so does everything if it is the same agent, which could not send heartbeats.
local noted = read('ZSCORE', index_key(scope), name)
local returned = noted and tonumber(noted) <= now + AGENT_MS
local lives_on = returned and life and noted_life(scope, name) == life
if returned and not lives_on then
	local _, all = forget(scope, name, MOST)
	if not all then return { OK, '', skipped, 1 } end
end

local key = P .. 'agent:' .. name
redis.call('HSET', key, 'updated_at', clock[1], 'memory_keys', '[]', unpack(ARGV, 7))
redis.call('PEXPIRE', key, ttl)
ends_in(scope, name, ttl)
note_life(scope, name, life)

if not returned then
	ask_namers(scope, name)
elseif not lives_on then
	ask_namers_in(scope, name, TOLD_MS)
end
return { OK, name, skipped }
