-- The end of an agent by request. ARGV: keep, scope, agent, the end that this call continues ('': it begins). Answers {OK, '',
-- how many were skipped, the end that has more to do at once ('': that was all)}.
local scope, me, rest = ARGV[2], ARGV[3], ARGV[4]

-- Another call did the rest, or an agent has taken the name and stays.
if rest ~= '' and (ending(scope, me) ~= rest or redis.call('EXISTS', P .. 'agent:' .. me) == 1) then
	return { OK, '', skipped, '' }
end
local _, all = forget(scope, me, MOST)
return { OK, '', skipped, all and '' or ending(scope, me) }
