#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of an agent: its peer sees it at once, its lease ends in the grace period, and when it comes back the links do.
# A lease is far longer than any wait of the test: what does not hear of a broken session misses it. Leases are ended by a
# second nanoctrl, whose own lease says for how long after its start it ends none.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

write_agent node-a 'links: [ { to: node-b, profile: shm, transports: [shm] }, { to: node-b, profile: tcp, transports: [tcp] } ]' \
	'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'metrics: { listen: "127.0.0.1:0" }'

start_redis
spawn reaper "$bin/nanoctrl" server --port 0 --runtime-dir "$work/reaper" --redis-url "unix://$work/redis.sock" "${lease[@]}"
lease+=(--set lease.ttl=10m)
start_nanoctrl
start_agent node-a
start_agent node-b
wait_ready node-a node-b
both_connected() {
	link_is "$1" "$2" shm connected && link_is "$1" "$2" tcp connected
}
wait_for 10 both_connected node-a node-b || fail "not connected: $(links)"
ends_leases() {
	grep -q 'no lease ends for 3000 ms' "$work/reaper.err"
}
wait_for 10 ends_leases || fail "the second nanoctrl does not reach Redis"
spend 4

not_connected() {
	local now

	now=$(links) && [ -n "$now" ] && ! grep -q "^$1 $2 .* connected" <<<"$now"
}

# kill_and_return VICTIM SURVIVOR
kill_and_return() {
	say "kill -9 of $1"
	end "$1" KILL
	wait_for 3 not_connected "$2" "$1" || fail "$2 does not see it: $(links)"
	wait_for 6 agent_is_gone "$1" || fail "its lease is still there"
	kill -0 "${pids[$2]}" || fail "the survivor ended"
	start_agent "$1"
	wait_ready "$1"
	wait_for 15 both_connected "$2" "$1" || fail "not connected again: $(links)"
	wait_for 5 both_connected "$1" "$2" || fail "not connected again: $(links)"
}

kill_and_return node-b node-a
kill_and_return node-a node-b

say "kill -9, and back at once"
end node-b KILL
start_agent node-b
wait_ready node-b
wait_for 15 both_connected node-a node-b || fail "not connected again: $(links)"
