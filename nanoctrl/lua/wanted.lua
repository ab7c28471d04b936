-- What one agent is to be linked with. ARGV: keep, agent. Answers {OK, its list as it is stored or '', 1 where that is all that it is to have; 0: it
-- was not expanded yet}.
local list = read('HGET', P .. 'wanted', ARGV[2])
local known = list or redis.call('EXISTS', P .. 'topologies') == 0
return { OK, list or '', known and 1 or 0 }
