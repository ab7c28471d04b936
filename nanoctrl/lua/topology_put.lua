-- Writes and removes topologies, all of them or none. ARGV: keep, the revision that all of this was made for, how many topologies a scope has at
-- most, and how many bytes of them, n, then n times a name and its document; then names to remove.
-- Answers {OK, revision}, or {STALE, revision}, or {TOO_MANY}.
local numbers, docs = P .. 'topology', P .. 'topologies'
local was = number(counted(read('HGET', numbers, 'revision')))
if was ~= tonumber(ARGV[2]) then return { STALE, text(was) } end

local last = 5 + 2 * tonumber(ARGV[5])
local sizes, count, bytes = {}, 0, 0
for _, name in ipairs(read('HKEYS', docs) or {}) do sizes[name] = number(read('HSTRLEN', docs, name)) end
for i = 6, last, 2 do sizes[ARGV[i]] = #ARGV[i + 1] end
for i = last + 1, #ARGV do sizes[ARGV[i]] = nil end
for _, size in pairs(sizes) do count, bytes = count + 1, bytes + size end
if count > tonumber(ARGV[3]) or bytes > tonumber(ARGV[4]) then return { TOO_MANY } end

gate()
epoch()
-- The clock keeps revisions apart also where all topologies went and their numbers with them.
local revision = text(math.max(tonumber(micros), was + 1))
for i = 6, last, 2 do
	local stored = read('HGET', docs, ARGV[i])
	local created = stored and string.match(stored, '^(%d+) ') or revision
	redis.call('HSET', docs, ARGV[i], created .. ' ' .. revision .. ' ' .. text(now) .. '\n' .. ARGV[i + 1])
	emit('topology', ARGV[i], '0', '', '', '', revision)
end
for i = last + 1, #ARGV do
	if number(read('HDEL', docs, ARGV[i])) > 0 then emit('topology_gone', ARGV[i], '0', '', '', '', revision) end
	read('HDEL', P .. 'topology_reports', ARGV[i])
end
redis.call('HSET', numbers, 'revision', revision)
-- A late request finds the number for as long as it may come.
if count == 0 then
	redis.call('PEXPIRE', numbers, 3600000)
else
	redis.call('PERSIST', numbers)
end
local root, scope = place()
write('SADD', root .. 'nanoctrl:topology_scopes', scope)
write('SADD', root .. 'nanoctrl:scopes', scope)
return { OK, revision }
