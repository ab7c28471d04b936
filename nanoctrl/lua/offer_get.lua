-- ARGV: keep, holder, lease, secret hash, from, to, profile
local from, to, profile = ARGV[5], ARGV[6], ARGV[7]
local word = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
local poster, peer = agent(from), agent(to)
local stored = poster and peer and read('HGET', owned_key('inbox', peer[1]), from .. '/' .. profile)
local _, generation = string.match(stored or '', '^(%d+) (%d+) ')
if not stored or generation ~= poster[1] then return { NOT_FOUND } end
return { OK, read_epoch(), last_event(), { { from, to, profile, stored } } }
