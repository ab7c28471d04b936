-- ARGV: keep, scope, type, id
local INFO_MAX = 33554432 -- others may have written more than an answer holds; that is none
local key = P .. ARGV[3] .. ':' .. ARGV[4]
local info, len = false, read('HSTRLEN', key, 'info')
if len and len > INFO_MAX then
	skipped = skipped + 1
elseif len then
	info = read('HGET', key, 'info')
end
return { info and OK or NOT_FOUND, { info or nil }, skipped }
