-- The end of an agent that somebody asks for. ARGV: keep, scope, agent, of which end this is the rest ('': it begins).
-- Answers {OK, '', how many were skipped, the end of which there is more to do at once ('': that was all)}.
local scope, me, rest = ARGV[2], ARGV[3], ARGV[4]

-- Somebody else did the rest, or has taken the name and stays.
if rest ~= '' and (ending(scope, me) ~= rest or redis.call('EXISTS', P .. 'agent:' .. me) == 1) then
	return { OK, '', skipped, '' }
end
local _, all = forget(scope, me, MOST)
return { OK, '', skipped, all and '' or ending(scope, me) }
