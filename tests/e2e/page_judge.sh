#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# page_judge.sh DURATION: pages are rewritten, deleted and evicted and owners are killed while readers compare every byte.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

judge() {
	timeout 600 "$bin/slime-bench" page judge --ctrl "$url" --scope test --owners 3 --page-size 16KiB --working-set 4096 \
		--batch-size 32 --concurrencies 4 --warmup 500ms --dir-cache-ttl 200ms --duration "$@" --json \
		>"$work/judge.json" 2>"$work/judge.err" || fail "$(cat "$work/judge.err")"
}

figure() {
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/judge.json" "$1"
}

start_control
for verify in always never; do
	say "verify $verify: no page is wrong"
	judge "$1" --verify "$verify"
	[ "$(figure 'sum(r["wrong_pages"] for r in d["rows"])')" = 0 ] || fail "$(cat "$work/judge.json")"
	[ "$(figure 'd["run"]["pages_rewritten"] > 0 and d["run"]["owners_ended"] > 0')" = True ] ||
		fail "nothing was rewritten, or nothing killed: $(cat "$work/judge.json")"
	figure '["%s: p99 %.0f us, %.0f pages/s" % (r["note"], r["p99_us"], r["pages_per_s"]) for r in d["rows"]]'
done

say "throughput over time is drawn, with each fault"
mkdir "$work/drawn"
cp "$work/judge.json" "$work/drawn/page-judge.json"
[ "$(figure 'len(d["run"]["series"]["gb_s"]) >= 5 and max(d["run"]["series"]["gb_s"]) > 0')" = True ] || fail "no series"
[ "$(figure 'len(d["run"]["series"]["faults_s"]) == d["run"]["owners_ended"]')" = True ] || fail "faults are missing"
if command -v gnuplot >/dev/null; then
	"$bin/slime-bench" plot "$work/drawn" >"$work/plot.out" || fail "plot"
	[ "$(cat "$work/plot.out")" = "$work/drawn/page-faults.png
$work/drawn/page-faults.svg" ] || fail "it drew $(cat "$work/plot.out")"
	[ "$(head -c 8 "$work/drawn/page-faults.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "not a PNG"
	grep -q 'judge 16 KiB x 32 over shm, 3 owners' "$work/drawn/page-faults.svg" || fail "it does not say what was measured"
	grep -q 'an owner ends' "$work/drawn/page-faults.svg" || fail "no faults are drawn"
fi
