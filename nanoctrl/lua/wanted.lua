-- The list of links that one agent has to keep. ARGV: keep, agent. Answers {OK, the list as it is stored or '', 1 if the list
-- is complete; 0: topologies were not expanded yet}.
local list = read('HGET', P .. 'wanted', ARGV[2])
local known = list or redis.call('EXISTS', P .. 'topologies') == 0
return { OK, list or '', known and 1 or 0 }
