-- Entries of snapshots that have expired go, some at a time. KEYS[1] is what stands before all keys.
-- ARGV: keep, how many of a scope
for _, scope in ipairs(read('SRANDMEMBER', P .. 'nanoctrl:snapshot_scopes', 16) or {}) do
	local index = P .. 'nanoctrl:snapshots:' .. scope
	for _, key in ipairs(read('ZRANDMEMBER', index, ARGV[2]) or {}) do
		if redis.call('EXISTS', key) == 0 then redis.call('ZREM', index, key) end
	end
	if number(read('ZCARD', index)) == 0 then redis.call('SREM', P .. 'nanoctrl:snapshot_scopes', scope) end
end
return { OK }
