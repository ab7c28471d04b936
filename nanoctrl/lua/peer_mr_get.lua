-- ARGV: keep, agent, name
local value = read('GET', P .. 'mr:' .. ARGV[2] .. ':' .. ARGV[3])
if not value then return { NOT_FOUND } end
return { OK, value }
