#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An agent with few descriptors: it takes those it may have, and goes on when there are none left.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

write_agent node-a 'metrics: { listen: "127.0.0.1:0" }'
start_control

# start_with LIMIT: node-a, which may have so many.
start_with() {
	spawn node-a prlimit --nofile="$1" "$bin/peeragent" --config "$work/node-a.yaml" --set "control.url=$url"
	wait_ready node-a
}

say "all that it may have"
start_with 48:512
grep -q '^Max open files  *512 ' "/proc/${pids[node-a]}/limits" || fail "it has $(grep '^Max open files' "/proc/${pids[node-a]}/limits")"
end node-a

say "clients of /metrics that take all descriptors"
start_with 48:48
spawn clients python3 -c '
import signal, socket, sys
host, port = sys.argv[1].split(":")
held = [socket.create_connection((host, int(port))) for _ in range(64)]
print("here", flush=True)
signal.pause()' "$(sed -n 's/.*metrics=//p' "$work/node-a.out")"
wait_for 10 test -s "$work/clients.out" || fail "they cannot connect: $(cat "$work/clients.err")"
wait_for 10 grep -q 'cannot accept: Too many open files' "$work/node-a.err" || fail "it does not say that it cannot accept"
spend 1
[ "$(grep -c accept "$work/node-a.err")" -eq 1 ] || fail "it says so $(grep -c accept "$work/node-a.err") times"
end clients
answers() {
	[ "$(metric node-a slime_agent_state 'state="ready"')" = 1 ]
}
wait_for 10 answers || fail "/metrics does not answer afterwards"
end node-a
[ "$status" -eq 0 ] || fail "it ended with $status"
