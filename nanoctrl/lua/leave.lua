-- ARGV: keep, name, lease, secret hash, scope of its snapshot ('' for none)
local word, generation, incarnation = holder(ARGV[2], ARGV[3], ARGV[4])
if word ~= OK then return { word } end
gate()
emit('left', ARGV[2], generation, incarnation, '', '', '0')
note_left(ARGV[2])
finish(ARGV[2], generation)
-- Its last snapshot says so for a while. What is no snapshot of ours stays as it is.
local key = snapshot_key(ARGV[5], ARGV[2])
local last = read('GET', key)
if last and string.sub(last, 1, #SNAPSHOT_HEAD) == SNAPSHOT_HEAD then
	read('SET', key, SNAPSHOT_STOPPED .. string.sub(last, 2), 'PX', 10000)
end
return { OK }
