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
	local wire

	ip link add wire2 mtu 4200 address 02:00:00:00:78:01 type veth peer name wire3 mtu 4200 address 02:00:00:00:78:02
	ip address add 10.78.0.1/24 dev wire2
	ip address add 10.78.0.2/24 dev wire3
	for wire in wire2 wire3; do
		ip link set "$wire" up
		echo 0 >"/proc/sys/net/ipv4/conf/$wire/rp_filter"
		echo 1 >"/proc/sys/net/ipv4/conf/$wire/accept_local"
	done
	rdma link add rxe2 type rxe netdev wire2
	rdma link add rxe3 type rxe netdev wire3
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
	[ "$1" = rpc ] || grep -q verified "$work/load.out" || fail "not verified: $(cat "$work/load.out")"
}

still_connected() {
	[ "$(n_lines node-a 'connection lost')" -eq 0 ] || fail "the link ended at node-a"
	[ "$(n_lines node-b 'connection lost')" -eq 0 ] || fail "the link ended at node-b"
	link_is node-a node-b default connected || fail "the link is not connected: $(links)"
}

add_second_pair
write_agent node-a 'data: { rdma: { devices: [rxe0, rxe2], timeout: 12 } }' \
	'links: [ { to: node-b, transports: [rdma] } ]' 'services: [ { name: echo }, { name: bench } ]'
write_agent node-b 'data: { rdma: { devices: [rxe1, rxe3], timeout: 12 } }' 'services: [ { name: echo }, { name: bench } ]'
start_control
start_agent node-a
start_agent node-b
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

during write 14s 0
during read 14s 1
during write_imm 24s 0 1

say "calls, while the rail that carries them goes down"
load rpc --sizes 64,64KiB --duration 10s
rail_ends 0 wire1
load_is_fine rpc
still_connected
