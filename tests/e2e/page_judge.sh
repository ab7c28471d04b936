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
