#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A link of two rails, rxe0 to rxe1 and rxe2 to rxe3, whose wires go down and up under load: no operation fails, every byte
# is compared, and each rail comes back with its wire.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/wire.sh"

remove_second_pair() {
	rdma link del rxe2 2>/dev/null || true
	rdma link del rxe3 2>/dev/null || true
	ip link del wire2 2>/dev/null || true
}
trap 'mend_wires; cleanup; remove_second_pair' EXIT

add_second_pair() {
	"$(dirname "${BASH_SOURCE[0]}")/devices.sh" 1
	wait_for 5 port_is_active rxe2 || fail "rxe2 is not active"
	wait_for 5 port_is_active rxe3 || fail "rxe3 is not active"
}

# n_lines AGENT WORDS: of its log.
n_lines() {
	grep -c -- "$2" "$work/$1.err" || true
}

# all_said RAIL WORDS: each end of each link, as often as is expected.
all_said() {
	local agent profile

	for agent in node-a node-b; do
		for profile in default bench-rdma; do
			[ "$(n_lines "$agent" "/$profile: rail $1 $2")" -ge "${n_said[$agent/$profile/$1 $2]}" ] || return 1
		done
	done
}

# expect RAIL WORDS: once more than until now.
declare -A n_said
expect() {
	local agent profile

	for agent in node-a node-b; do
		for profile in default bench-rdma; do
			n_said[$agent/$profile/$1 $2]=$(($(n_lines "$agent" "/$profile: rail $1 $2") + 1))
		done
	done
}

# rail_ends RAIL WIRE, rail_returns RAIL WIRE: for both links, as its wire does, while the load goes on.
rail_ends() {
	expect "$1" stopped
	ip link set "$2" down
	wait_for 10 all_said "$1" stopped || fail "rail $1 is not stopped"
	load_goes_on
}

rail_returns() {
	expect "$1" "is in use again"
	ip link set "$2" up
	wait_for 20 all_said "$1" "is in use again" || fail "rail $1 does not come back"
	load_goes_on
}

n_loads=0
load_is_linked() {
	[ "$(n_lines node-a 'endpoint: node-b/bench-rdma: connected')" -ge "$n_loads" ] &&
		[ "$(n_lines node-b 'endpoint: node-a/bench-rdma: connected')" -ge "$n_loads" ]
}

# load COMMAND...: in the background, node-a initiates; it is under way when this returns.
load() {
	n_loads=$((n_loads + 1))
	spawn load "$bin/slime-bench" "$1" --ctrl "$url" --scope test --from node-a --peer node-b --transport rdma "${@:2}"
	wait_for 10 load_is_linked || fail "the load is not linked: $(cat "$work/load.err")"
	spend 1
}

load_goes_on() {
	kill -0 "${pids[load]}" 2>/dev/null || fail "the load is over: $(cat "$work/load.out" "$work/load.err")"
}

load_is_fine() {
	reap load
	[ "$status" -eq 0 ] || fail "the load ended with $status: $(cat "$work/load.out")"
	[ "$1" = transfer ] || return 0
	grep -q verified "$work/load.out" || fail "not verified: $(cat "$work/load.out")"
	grep -q '^rails  *rxe0:1 to rxe1:1 [0-9.]* %.*, rxe2:1 to rxe3:1 [0-9.]* %' "$work/load.out" ||
		fail "its rails are not told: $(cat "$work/load.out")"
}

still_connected() {
	[ "$(n_lines node-a 'connection lost')" -eq 0 ] || fail "the link ended at node-a"
	[ "$(n_lines node-b 'connection lost')" -eq 0 ] || fail "the link ended at node-b"
	link_is node-a node-b default connected || fail "the link is not connected: $(links)"
}

# rail METRIC LABEL...: of node-a's link that is idle.
rail() {
	metric node-a "slime_rail_$1" 'profile="default"' "${@:2}"
}

# rails_say RAIL WORDS: as node-a explains it.
rails_say() {
	"$bin/nanoctrl" obs links --rails --address "$url" --scope test >"$work/rails.out" &&
		grep -q -- "^node-a  *node-b  *default  *$1  *$2" "$work/rails.out"
}

add_second_pair
metrics='metrics: { listen: "127.0.0.1:0" }'
write_agent node-a 'data: { rdma: { devices: [rxe0, rxe2], pair: numa, timeout: 12 } }' "$metrics" \
	'links: [ { to: node-b, transports: [rdma] } ]' 'services: [ { name: echo }, { name: bench } ]'
write_agent node-b 'data: { rdma: { devices: [rxe1, rxe3], pair: numa, timeout: 12 } }' "$metrics" \
	'services: [ { name: echo }, { name: bench } ]'
start_control
start_agent node-a --set control.snapshots=1s
start_agent node-b --set control.snapshots=1s
wait_ready node-a node-b
wait_link 10 node-a node-b default connected rdma

# during OP DURATION RAIL...: the wires of these rails go down and up, one after the other.
during() {
	local rail

	say "$1, while the wire of rail ${*:3} goes down and up"
	load transfer --op "$1" --block-size 256KiB --batch-size 8 --duration "$2"
	for rail in "${@:3}"; do
		rail_ends "$rail" "wire$((2 * rail + 1))"
		spend 1
		rail_returns "$rail" "wire$((2 * rail + 1))"
	done
	load_is_fine transfer
	still_connected
}

during write 18s 0

say "each rail is explained"
[ "$(rail state 'rail="1"' 'device="rxe2:1"' 'state="up"')" = 1 ] || fail "rail 1 is not up"
[ "$(rail failures_total 'rail="0"')" = 1 ] || fail "rail 0 failed $(rail failures_total 'rail="0"') times"
[ "$(rail failures_total 'rail="1"')" = 0 ] || fail "rail 1 failed"
wait_for 25 rails_say 0 "rxe0:1  *rxe1:1  *up .* 1  .*paired by NUMA node, which is unknown; GID index 1, RoCE v2, 10.77.0.1" ||
	fail "rail 0 is not explained: $(cat "$work/rails.out")"
wait_for 25 rails_say 1 "rxe2:1  *rxe3:1  *up .* 0  *-  *paired by NUMA" || fail "rail 1 is not explained: $(cat "$work/rails.out")"

during read 18s 1
during write_imm 30s 0 1

say "calls, while the rail that carries them goes down"
load rpc --sizes 64,64KiB --duration 10s
rail_ends 0 wire1
load_is_fine rpc
still_connected
