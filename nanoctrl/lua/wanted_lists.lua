-- A batch of all lists of a scope. ARGV: keep, where to go on ('0' from the first), how many about.
-- Answers {OK, where to go on ('0': that was all), {agent, list as it is stored, ...}}.
local step = read('HSCAN', P .. 'wanted', ARGV[2], 'COUNT', ARGV[3])
if not step then return { OK, '0', {} } end
return { OK, step[1], step[2] }
