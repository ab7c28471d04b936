-- ARGV: keep, name, lease, secret hash
local word, generation, incarnation = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
gate()
finish(ARGV[2], generation)
emit('left', ARGV[2], generation, incarnation, '', '', '0')
return { OK }
