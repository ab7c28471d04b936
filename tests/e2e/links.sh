#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Agents come up in any order and find each other; they leave in order.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

write_agent node-a 'links: [ { to: node-b, profile: shm, transports: [shm] }, { to: node-b, profile: tcp, transports: [tcp], max_bandwidth: 10Gbps } ]' \
	'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'regions: [ { name: kv, size: 1MiB, access: [read, write] } ]' 'services: [ { name: echo } ]'
write_agent node-c 'links: [ { to: "role=decode" } ]'
sed -i 's/name: node-b,/name: node-b, labels: { role: decode },/' "$work/node-b.yaml"

start_control
say "an agent whose peer is not there yet"
start_agent node-a --set control.snapshots=1h
wait_ready node-a
wait_link 5 node-a node-b shm connecting

say "two links of two transports to one peer"
start_agent node-b --set control.snapshots=1h
wait_ready node-b
for profile in shm tcp; do
	wait_link 10 node-a node-b "$profile" connected "$profile"
	wait_link 10 node-b node-a "$profile" connected "$profile"
done
[ "$(metric node-a slime_link_state 'profile="tcp"' 'state="connected"')" = 1 ] || fail "the metrics do not say so"

[ "$(metric node-a slime_link_max_bandwidth 'profile="tcp"')" = 10000000000 ] || fail "the metrics do not tell the cap"
[ "$(metric node-a slime_link_max_bandwidth 'profile="shm"')" = 0 ] || fail "the metrics tell of a cap where there is none"

say "each link is explained"
explains() {
	"$bin/nanoctrl" explain "$1" "$2" --address "$url" --scope test >"$work/explained" || fail "explain: $?"
	grep -qE -- "$3" "$work/explained"
}
wait_for 10 explains node-a node-b '^link to node-b, profile shm: connected over shm for ' || fail "$(cat "$work/explained")"
explains node-a node-b '^link to node-b, profile tcp: connected over tcp for ' || fail "$(cat "$work/explained")"
explains node-a node-b '^  cap  *its own reads and writes move at most 10Gbps$' || fail "$(cat "$work/explained")"
explains node-b node-a '^  allowed  *shm, rdma, tcp' || fail "$(cat "$work/explained")"
explains node-b node-a '^  other end  *node-a says the same; it allows shm$' || fail "$(cat "$work/explained")"

# Though the next snapshot by the clock is an hour away.
say "every column of obs links is filled soon after"
no_dash() {
	"$bin/nanoctrl" obs links --address "$url" --scope test >"$work/columns" &&
		[ "$(grep -c ' connected ' "$work/columns")" = 4 ] && ! grep -Eq '(^|[^[:alnum:]])-([^[:alnum:]]|$)' "$work/columns"
}
wait_for 10 no_dash || fail "$(cat "$work/columns")"

say "a link to whom a selector matches"
start_agent node-c
wait_link 10 node-c node-b default connected
link_is node-c node-a && fail "the selector matched node-a"

say "the region and the service are in the directory"
grep -q '"size":1048576' <<<"$(curl -sf "$url/v1/agents/node-b/regions/kv?scope=test")" || fail "no region"
grep -q '"agent":"node-b"' <<<"$(curl -sf "$url/v1/services?scope=test&name=echo")" || fail "no service"

say "leaving in order"
end node-b
[ "$status" -eq 0 ] || fail "node-b ended with $status"
wait_for 2 agent_is_gone node-b || fail "node-b left its registration behind"
wait_link 5 node-a node-b shm connecting
end node-a
[ "$status" -eq 0 ] || fail "node-a ended with $status"
end node-c
[ "$status" -eq 0 ] || fail "node-c ended with $status"
[ -z "$(links)" ] || fail "links are left: $(links)"

# Which takes as long as they wait for it, 5 s.
say "leaving while nanoctrl hangs"
nodes=(node-a node-b node-c)
for node in "${nodes[@]}"; do
	start_agent "$node"
done
wait_ready "${nodes[@]}"
kill -STOP "${pids[nanoctrl]}"
for node in "${nodes[@]}"; do
	kill -TERM "${pids[$node]}"
done
for node in "${nodes[@]}"; do
	reap "$node"
	[ "$status" -eq 0 ] || fail "$node ended with $status"
	! grep -q 'did not leave' "$work/$node.err" || fail "$node says more than that its goodbye had no answer"
done
kill -CONT "${pids[nanoctrl]}"
