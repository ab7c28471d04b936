#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A peer's process is killed: an agent with an idle link to it hears of that within 2.5 s, over shm and over tcp, and of
# the end of its lease. A peer that stands still is told of by its lease alone, and its link stays.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

watch=$SLIME_BUILD/tests/peeragent-watch
lease=(--set lease.ttl=3s --set lease.beat=1s --set lease.grace=1s)
start_control
spend 4

# told NAME REASON: the milliseconds from the epoch at which NAME heard of it.
told() {
	sed -n "s/^\([0-9]*\) node-b $2 .*/\1/p" "$work/$1.out" | head -1
}

# is_told NAME REASON
is_told() {
	[ -n "$(told "$@")" ]
}

for transport in shm tcp; do
	say "kill -9, $transport"
	write_agent node-b "data: { transports: [$transport] }"
	start_agent node-b
	wait_ready node-b
	spawn "watch-$transport" "$watch" "$url" test node-b $transport
	wait_for 15 grep -q connected "$work/watch-$transport.out" || fail "not connected: $(cat "$work/watch-$transport.err")"
	before=$(date +%s%3N)
	end node-b KILL
	wait_for 10 is_told "watch-$transport" reset || fail "no reset: $(cat "$work/watch-$transport.out")"
	took=$(($(told "watch-$transport" reset) - before))
	echo "reset after $took ms"
	[ "$took" -le 2500 ] || fail "reset after $took ms"
	wait_for 15 is_told "watch-$transport" expired || fail "not expired: $(cat "$work/watch-$transport.out")"
	end "watch-$transport"
done

say "SIGSTOP"
start_agent node-b
wait_ready node-b
spawn watch-stop "$watch" "$url" test node-b tcp
wait_for 15 grep -q connected "$work/watch-stop.out" || fail "not connected: $(cat "$work/watch-stop.err")"
kill -STOP "${pids[node-b]}"
wait_for 15 is_told watch-stop expired || fail "not expired: $(cat "$work/watch-stop.out")"
! is_told watch-stop reset || fail "taken for dead: $(cat "$work/watch-stop.out")"
kill -CONT "${pids[node-b]}"
wait_for 10 grep -q 'node-b link connected 1$' "$work/watch-stop.out" || fail "the link did not stay: $(cat "$work/watch-stop.out")"
