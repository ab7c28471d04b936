-- A value of a Mooncake engine. ARGV: keep, engine, field
local value = read('HGET', P .. 'engine:' .. ARGV[2], ARGV[3])
if not value then return { NOT_FOUND } end
return { OK, value }
