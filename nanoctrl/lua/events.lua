-- ARGV: keep, epoch ('0': where events end), id to read behind, limit
local e, last, behind = read_epoch(), last_event(), tonumber(ARGV[3])
if ARGV[2] == '0' and e ~= '0' then return { OK, e, 0, last, {} } end
if ARGV[2] ~= e or behind > tonumber(last) then return { OK, e, 1, last, {} } end
if behind == tonumber(last) then return { OK, e, 0, last, {} } end
local found = read('XRANGE', EVENTS, '(' .. ARGV[3] .. '-18446744073709551615', '+', 'COUNT', ARGV[4]) or {}
if not found[1] or found[1][1] ~= text(behind + 1) .. '-0' then return { OK, e, 1, last, {} } end
return { OK, e, 0, last, found }
