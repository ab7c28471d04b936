#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime devices and slime-bench rnr on real devices: what they say follows the ports.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/wire.sh"
trap 'mend_wires; cleanup' EXIT

# bench STATUS COMMAND...: its words are in bench.err.
bench() {
	local status=0 program=slime-bench

	[ "$2" != devices ] || program=slime
	"$bin/$program" "${@:2}" >"$work/bench.err" 2>&1 || status=$?
	[ "$status" -eq "$1" ] || fail "${*:2}: it ended with $status"
}

# says WORDS...: one of its lines has all of them.
says() {
	local left word

	left=$(cat "$work/bench.err")
	for word in "$@"; do
		left=$(grep -F -- "$word" <<<"$left") || fail "it does not say: $*"
	done
}

says_gid_of_wire1() {
	"$bin/slime" devices | grep -q "RoCE v2  10.77.0.2  wire1"
}

say "both can be used, by their IPv4 addresses"
bench 0 devices
says rxe0 ACTIVE 4096 wire0 yes
says rxe1 ACTIVE 4096 wire1 yes
says "usable: GID index 1, RoCE v2, 10.77.0.1 of wire0"
says "usable: GID index 1, RoCE v2, 10.77.0.2 of wire1"

say "the counters are there"
bench 0 rnr
says rxe0
says rxe1

say "an address that is removed takes its GID along"
ip address del 10.77.0.2/24 dev wire1
wait_for 5 eval '! says_gid_of_wire1' || fail "the GID is still there"
ip address add 10.77.0.2/24 dev wire1
wait_for 5 says_gid_of_wire1 || fail "the GID does not come back"

say "a wire that is down is both ends' trouble"
ip link set wire1 down
wait_for 5 eval '! port_is_active rxe0' || fail "rxe0 is active"
wait_for 5 eval '! port_is_active rxe1' || fail "rxe1 is active"
none=1 # the status when no device can be used; those of other pairs can be
for device in /sys/class/infiniband/*; do
	[[ $device == */rxe[01] ]] || none=0
done
bench "$none" devices
[ "$(grep -c "not usable: port 1 is DOWN" "$work/bench.err")" -eq 2 ] || fail "they can be used"
ip link set wire1 up
wait_for 5 port_is_active rxe0 || fail "rxe0 is not active"
wait_for 5 port_is_active rxe1 || fail "rxe1 is not active"
bench 0 devices

say "a device that is deleted is not listed"
rdma link del rxe1
bench 0 devices
says rxe0 yes
! grep -q rxe1 "$work/bench.err" || fail "rxe1 is listed"
rdma link add rxe1 type rxe netdev wire1
wait_for 5 port_is_active rxe1 || fail "rxe1 is not active"
bench 0 devices
says "usable: GID index 1, RoCE v2, 10.77.0.2 of wire1"
