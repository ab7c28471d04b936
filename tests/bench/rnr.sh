#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench rnr: counters once, in JSON, and as they grow; how it ends.
. "$(dirname "${BASH_SOURCE[0]}")/sysfs.sh"

program=slime-bench

counters=class/infiniband/mlx5_0/ports/1/hw_counters

echo "-- no counters"
mkdir "$sys"
run 1 rnr
grep -q "slime devices" "$work/err" || fail "it does not say where to look"

echo "-- once"
put $counters/out_of_buffer 12
put $counters/packet_seq_err 0
put $counters/lifespan 10
run 0 rnr
says "mlx5_0 .* 1 .* not ready .* out_of_buffer .* 12 .* no receive was posted"
says "1 of 2 counters are zero"
run 0 rnr --json
json '[(c["counter"], c["value"], c["added"]) for c in d["counters"]] == [("out_of_buffer", 12, 0), ("packet_seq_err", 0, 0)]'

echo "-- a number of samples"
run 0 rnr --watch 10ms 2
[ "$(grep -c quiet "$work/out")" -eq 2 ] || fail "not two samples"
says "2 of 2 counters stayed at zero"
run 0 rnr --watch --json 10ms 1
json 'd["bench"] == "rnr" and len(d["counters"]) == 2'

# wait_for WORDS: until they are in the output; the machine may be busy.
wait_for() {
	local deadline=$((SECONDS + 60))

	until grep -q -- "$1" "$work/out"; do
		[ "$SECONDS" -lt "$deadline" ] || fail "it never says: $1"
		sleep 0.02
	done
}

echo "-- until a signal comes"
: >"$work/out" # of the run before; the next one's is waited for
"$bin/slime-bench" rnr --sysfs "$sys" --watch 20ms >"$work/out" 2>"$work/err" &
pid=$!
trap 'kill -KILL "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
wait_for quiet
put $counters/packet_seq_err.new 3
mv "$sys/$counters/packet_seq_err.new" "$sys/$counters/packet_seq_err"
wait_for "mlx5_0:1  packet_seq_err  +3  gaps"
kill -INT "$pid"
status=0
wait "$pid" || status=$?
[ "$status" -eq 130 ] || fail "it ended with $status"
says "retransmit .* packet_seq_err .* 3 .* sent again"

echo "-- words that are none"
run 2 rnr 1s
run 2 rnr --watch soon
run 2 rnr --watch 1ms
run 2 rnr --watch 1s 0
run 2 rnr --watch 1s 2 3
