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

# stopped|back RAIL N: for the N-th time, at both ends.
stopped() {
	[ "$(n_lines node-a "rail $1 stopped")" -ge "$2" ] && [ "$(n_lines node-b "rail $1 stopped")" -ge "$2" ]
}

back() {
	[ "$(n_lines node-a "rail $1 is in use again")" -ge "$2" ] &&
		[ "$(n_lines node-b "rail $1 is in use again")" -ge "$2" ]
}

# load COMMAND...: in the background, node-a initiates.
load() {
	spawn load "$bin/slime-bench" "$1" --ctrl "$url" --scope test --from node-a --peer node-b --transport rdma "${@:2}"
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

round=0
for op in write read write_imm; do
	round=$((round + 1))
	say "$op, while the wire of one rail, then that of the other goes down and up"
	load transfer --op "$op" --block-size 256KiB --batch-size 8 --duration 12s
	wait_for 10 test -s "$work/load.err" || true
	spend 2
	for rail in 0 1; do
		ip link set "wire$((2 * rail + 1))" down
		wait_for 10 stopped "$rail" "$round" || fail "rail $rail is not stopped"
		spend 1
		ip link set "wire$((2 * rail + 1))" up
		wait_for 20 back "$rail" "$round" || fail "rail $rail does not come back"
	done
	load_is_fine transfer
	still_connected
done

say "calls, while the rail that carries them goes down"
load rpc --sizes 64,64KiB --iterations 3000
spend 2
ip link set wire1 down
ip link set wire0 down
wait_for 10 stopped 0 $((round + 1)) || fail "rail 0 is not stopped"
load_is_fine rpc
still_connected
