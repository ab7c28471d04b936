-- ARGV: keep, scope, type, id
local INFO_MAX = 33554432 -- others may have written more than an answer holds; that is none
local key = P .. ARGV[3] .. ':' .. ARGV[4]
local info = number(read('HSTRLEN', key, 'info')) <= INFO_MAX and read('HGET', key, 'info')
if not info then return { NOT_FOUND } end
return { OK, { info } }
