#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/targets: every reference and every measurement of ours runs and finds its bytes right; the verdict follows from
# the rounds; what it prints for people and machines.
set -euo pipefail

targets=$SLIME_SOURCE/bench/targets
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	exit 1
}

# Two rounds, each one line of JSON with a time in it.
measures() {
	echo "$*"
	printf '\n\n' | "$SLIME_BIN/$1" "${@:2}" --step --round 1ms >"$work/out" || fail "$* ended with $?"
	python3 - "$work/out" <<-'END' || fail "$*: $(cat "$work/out")"
		import json, sys
		rounds = [json.loads(line) for line in open(sys.argv[1])]
		assert len(rounds) == 2 and all(r["ops"] > 0 and r.get("p50_us", r["avg_us"]) > 0 for r in rounds)
	END
}

# refused WHAT ARGUMENT...: a usage error that says what.
refused() {
	local status=0

	"$targets" "${@:2}" 2>"$work/err" || status=$?
	[ "$status" -eq 2 ] || fail "${*:2}: it ended with $status"
	grep -q -- "$1" "$work/err" || fail "${*:2}: it says $(cat "$work/err")"
}

for what in memcpy pull tcp-read; do
	measures slime-reference $what --block 4KiB --batch 3
	measures slime-reference $what --block 8 --batch 1500 --scatter
done
for size in 0 64 100KiB; do
	measures slime-reference mailbox --size $size
done
measures slime-reference mailbox --size 64 --links 3
measures slime-reference tcp-links --size 64 --links 3
measures slime-reference futex
for waiting in spin sleep; do
	measures slime-reference tcp-echo --size 1KiB --wait $waiting
done
measures slime-reference tcp-rate --size 64
for transport in shm tcp; do
	measures slime-measure bounce --transport $transport --size 64
	for op in read write; do
		measures slime-measure $op --transport $transport --block 4KiB --batch 3
		measures slime-measure $op --transport $transport --block 4KiB --batch 2 --inflight 5 --cold
		measures slime-measure $op --transport $transport --block 4KiB --batch 2 --inflight 5 --one-place --cold
		measures slime-measure $op --transport $transport --block 8 --batch 1500 --scatter
	done
	for memory in own registered in-place; do
		measures slime-measure rpc --transport $transport --size 100KiB --memory $memory
	done
	measures slime-measure rpc --transport $transport --size 64 --inflight 8 --polling event
	measures slime-measure links --transport $transport --size 64 --links 3
	measures slime-measure rest --transport $transport --links 3
done
measures slime-measure read --foreign --block 4KiB --batch 3

echo "the control plane, and Redis alone"
side() {
	echo "control $*"
	printf '\n\n' | "$SLIME_SOURCE/bench/baselines/control" "$@" --step >"$work/out" || fail "control $* ended with $?"
	python3 - "$work/out" <<-'END' || fail "control $*: $(cat "$work/out")"
		import json, sys
		rounds = [json.loads(line) for line in open(sys.argv[1])]
		assert len(rounds) == 2 and all((r.get("per_s") or r.get("p50_us") or r.get("kib_each")) > 0 for r in rounds)
	END
}
for route in register heartbeat lookup list query topology put-mr get-mr agent v1-register v1-heartbeat v1-lookup; do
	side ours --route $route --connections 2
done
side ours --route query --connections 1 --foreign 1000
side ours --route v1-rendezvous --connections 4
side redis
side ours --route event --agents 4
side ours --route hold --agents 4 --window 0.2

echo "a target and handles"
for way in "" --by-handles; do
	printf '\n\n' | "$SLIME_SOURCE/bench/baselines/agents" --transport shm $way --step --round 1ms >"$work/out" ||
		fail "agents $way ended with $?"
	[ "$(grep -c '"p50_us"' "$work/out")" -eq 2 ] || fail "agents $way: $(cat "$work/out")"
done

echo "the verdict"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SLIME_SOURCE/bench python3 "$(dirname "$0")/targets_verdict.py" -q 2>"$work/err" ||
	fail "$(cat "$work/err")"

echo "what it prints"
"$targets" --list >"$work/out" || fail "--list"
grep -q '^shm-read-128k  GB/s >= 0.95  warm$' "$work/out" || fail "$(cat "$work/out")"
refused 'no row is called nothing' --only nothing
refused 'no slime-measure' --bin "$work"
status=0
"$targets" --bin "$SLIME_BIN" --only shm-rpc-64 --json >"$work/out" || status=$?
[ "$status" -le 1 ] || fail "it ended with $status"
python3 - "$work/out" "$status" <<'END' || fail "JSON: $(cat "$work/out")"
import json, sys
(row,) = json.load(open(sys.argv[1]))["rows"]
assert row["name"] == "shm-rpc-64" and row["ours"] > 0 and row["reference"] > 0 and 5 <= row["rounds"] <= 15
assert (row["verdict"] == "ok") == (sys.argv[2] == "0")
END
