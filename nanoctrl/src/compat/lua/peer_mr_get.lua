-- ARGV: keep, agent, name
local value = string_of(P .. 'mr:' .. ARGV[2] .. ':' .. ARGV[3], 65536)
return { value and OK or NOT_FOUND, value or '', skipped }
