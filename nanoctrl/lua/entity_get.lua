-- ARGV: keep, scope, type, id
local info = read('HGET', P .. ARGV[3] .. ':' .. ARGV[4], 'info')
if not info then return { NOT_FOUND } end
return { OK, { info } }
