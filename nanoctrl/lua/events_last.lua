-- ARGV: keep, limit. The last events that are kept, and the time.
local found, rows = read('XREVRANGE', EVENTS, '+', '-', 'COUNT', ARGV[2]) or {}, {}
for i = #found, 1, -1 do rows[#rows + 1] = found[i] end
return { OK, read_epoch(), 0, last_event(), rows, text(now) }
