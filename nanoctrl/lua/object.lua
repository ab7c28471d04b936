-- One object with its blob. ARGV: keep, agent, kind, object
local cursor = last_event()
local h = agent(ARGV[2], 'incarnation')
local stored = h and read('HGET', owned_key(ARGV[3], h[1]), ARGV[4])
if not stored then return { NOT_FOUND } end
return { OK, read_epoch(), cursor, text(now), '', skipped, { { ARGV[2], h[1], h[2] or '', ARGV[4], stored } } }
