#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quickstart's main job over rdma, on the first device, as its user sees it; then what its agents cost that have a link
# and nothing to do.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

stop=
trap 'stop_it; cleanup' EXIT
stop_it() {
	[ -z "$stop" ] || "$stop" || true
	stop=
}
export TMPDIR=$work

say "calls and transfers, every byte compared"
spawn quickstart "${SLIME_SOURCE:?}/deploy/quickstart.sh" --no-build --rdma --keep
reap quickstart
cat "$work/quickstart.out"
stop=$(sed -n 's/.*stop it: *//p' "$work/quickstart.out")
[ "$status" -eq 0 ] || fail "it ended with $status"
grep -q 'slime-bench rpc over rdma' "$work/quickstart.out" || fail "no calls over rdma"
grep -q '^read .* verified' "$work/quickstart.out" || fail "no verified transfer"
grep -q '^node-a .* connected .* rdma  *rdma' "$work/quickstart.out" || fail "no link over rdma"

# Beats, snapshots and the question whether the peer is there wake an agent, some times a second, and are seen to take one or two
# per cent of an emulated processor; a machine that is busy with other things makes that more.
say "an idle link"
seconds=10
mapfile -t agents < <(sed -n 's/^stop \([0-9]*\) .*/\1/p' "$stop")
[ "${#agents[@]}" -eq 2 ] || fail "$(cat "$stop")"
per_second=$(getconf CLK_TCK)
declare -A ticks_before=() sleeps_before=()
began=$SECONDS
for pid in "${agents[@]}"; do
	ticks_before[$pid]=$(ticks "$pid")
	sleeps_before[$pid]=$(sleeps "$pid")
done
spend "$seconds"
for pid in "${agents[@]}"; do
	used=$(($(ticks "$pid") - ticks_before[$pid]))
	slept=$(($(sleeps "$pid") - sleeps_before[$pid]))
	took=$((SECONDS - began + 1))
	echo "agent $pid: $used ticks of $((took * per_second)), slept $slept times"
	[ "$used" -le $((took * per_second / 10)) ] || fail "agent $pid is not idle"
	[ "$slept" -le $((took * 10)) ] || fail "agent $pid is woken too often"
done

# Who comes next may want to delete the device.
they_are_gone() {
	! kill -0 "${agents[@]}" 2>/dev/null
}
stop_it
wait_for 10 they_are_gone || fail "the agents go on"
