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

# count AGENT WORDS: in $n, of its log, the lines that have them. Other processes take longer here than what is waited for.
n=0
count() {
	local line
	local -a lines

	n=0
	mapfile -t lines <"$work/$1.err"
	for line in "${lines[@]}"; do
		[[ $line != *"$2"* ]] || n=$((n + 1))
	done
}

load_goes_on() {
	kill -0 "${pids[load]}" 2>/dev/null
}

# all_said RAIL WORDS: each end of each link, as often as is expected; that of a load which is over is gone.
all_said() {
	local agent profile

	for agent in node-a node-b; do
		for profile in default bench-rdma; do
			[ "$profile" = default ] || load_goes_on || continue
			count "$agent" "/$profile: rail $1 $2"
			[ "$n" -ge "${n_said[$agent/$profile/$1 $2]}" ] || return 1
		done
	done
}

# expect RAIL WORDS: once more than until now.
declare -A n_said
expect() {
	local agent profile

	for agent in node-a node-b; do
		for profile in default bench-rdma; do
			count "$agent" "/$profile: rail $1 $2"
			n_said[$agent/$profile/$1 $2]=$((n + 1))
		done
	done
}

# rail_ends RAIL, rail_returns RAIL: for both links, as its wire does.
rail_ends() {
	expect "$1" stopped
	ip link set "wire$((2 * $1 + 1))" down
	wait_for 10 all_said "$1" stopped || fail "rail $1 is not stopped"
}

rail_returns() {
	expect "$1" "is in use again"
	ip link set "wire$((2 * $1 + 1))" up
	wait_for 20 all_said "$1" "is in use again" || fail "rail $1 does not come back"
}

# work_of RAIL: what node-a has done for the load: calls, or bytes that this rail moved. Empty when its link is gone.
work_of() {
	if [ "$kind" = rpc ]; then
		metric node-a slime_ops_completed_total 'profile="bench-rdma"' 'kind="call"'
	else
		metric node-a slime_rail_bytes_total 'profile="bench-rdma"' "rail=\"$1\""
	fi
}

# Of a load that is over nothing is to be seen; it is done again.
enough_is_done() {
	load_goes_on || return 0
	done_now=$(work_of "$1")
	[ -n "$done_now" ] && [ "$done_now" -ge $(($2 + enough)) ]
}

# carries_on RAIL: the load's work goes on while the other rail is down.
carries_on() {
	local before

	done_now=
	before=$(work_of "$1")
	wait_for 5 enough_is_done "$1" "${before:-0}" || fail "rail $1 does not carry on: $before, then $done_now"
	echo "rail $1 alone: $before, then $done_now"
}

# rails_go_and_return RAIL...: one after the other.
rails_go_and_return() {
	local rail

	for rail in "$@"; do
		rail_ends "$rail"
		carries_on $((1 - rail))
		rail_returns "$rail"
	done
}

n_loads=0
load_is_linked() {
	count node-a 'link node-b/bench-rdma is connected'
	[ "$n" -ge "$n_loads" ] || return 1
	count node-b 'link node-a/bench-rdma is connected'
	[ "$n" -ge "$n_loads" ]
}

# load COMMAND...: in the background, node-a initiates; it is under way when this returns. Ten calls are enough, or two
# batches: one of either is under way at a time.
load() {
	n_loads=$((n_loads + 1))
	kind=$1
	enough=10
	[ "$kind" = rpc ] || enough=$((2 * 8 * 256 * 1024))
	spawn load "$bin/slime-bench" "$1" --ctrl "$url" --scope test --from node-a --peer node-b --transport rdma "${@:2}"
	wait_for 10 load_is_linked || fail "the load is not linked: $(cat "$work/load.err")"
	spend 1
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
	local agent

	for agent in node-a node-b; do
		count "$agent" ' is broken: '
		[ "$n" -eq 0 ] || fail "the link ended at $agent"
	done
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

# during SECONDS LOAD... -- CHANGE...: the load goes on until the change is over. Where that takes longer than the load
# both are done again, with a load of twice the time.
during() {
	local seconds=$1
	local -a words=()

	shift
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	say "$seconds s of ${words[*]}, meanwhile: $*"
	load "${words[@]}" --duration "${seconds}s"
	"$@"
	if load_goes_on; then
		load_is_fine "${words[0]}"
		still_connected
		return
	fi
	load_is_fine "${words[0]}"
	[ "$seconds" -lt 60 ] || fail "the load of $seconds s was over too early"
	during $((2 * seconds)) "${words[@]}" -- "$@"
}

transfer=(transfer --block-size 256KiB --batch-size 8)
during 10 "${transfer[@]}" --op write -- rails_go_and_return 0

say "each rail is explained"
[ "$(rail state 'rail="1"' 'device="rxe2:1"' 'state="up"')" = 1 ] || fail "rail 1 is not up"
count node-a '/default: rail 0 stopped'
[ "$(rail failures_total 'rail="0"')" = "$n" ] || fail "rail 0 failed $(rail failures_total 'rail="0"') times"
[ "$(rail failures_total 'rail="1"')" = 0 ] || fail "rail 1 failed"
wait_for 25 rails_say 0 "rxe0:1  *rxe1:1  *up .* $n  .*paired by NUMA node, which is unknown; GID index 1, RoCE v2, 10.77.0.1" ||
	fail "rail 0 is not explained: $(cat "$work/rails.out")"
explains() {
	"$bin/nanoctrl" explain node-a node-b --address "$url" --scope test >"$work/explained.out" &&
		grep -q -- "^  rail 0  *rxe0:1 to rxe1:1: up; .* failed $n time" "$work/explained.out"
}
wait_for 25 explains || fail "rail 0 is not explained: $(cat "$work/explained.out")"
wait_for 25 rails_say 1 "rxe2:1  *rxe3:1  *up .* 0  *-  *paired by NUMA" || fail "rail 1 is not explained: $(cat "$work/rails.out")"

during 10 "${transfer[@]}" --op read -- rails_go_and_return 1
during 16 "${transfer[@]}" --op write_imm -- rails_go_and_return 0 1
# Another size has another link.
during 10 rpc --sizes 64 -- rails_go_and_return 0
during 10 rpc --sizes 64KiB -- rails_go_and_return 1
