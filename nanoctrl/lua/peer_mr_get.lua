-- ARGV: keep, agent, name
local value = string_of(P .. 'mr:' .. ARGV[2] .. ':' .. ARGV[3], 65536)
if not value then return { NOT_FOUND } end
return { OK, value }
