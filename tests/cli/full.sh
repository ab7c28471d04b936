#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Standard output that takes nothing: whatever prints a result there says so, once, and does not succeed.
set -euo pipefail

bin=${SLIME_BIN:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# full PROGRAM ARGUMENT...
full() {
	local status=0

	(cd "${SLIME_SOURCE:?}" && exec "$bin/$1" "${@:2}") >/dev/full 2>"$work/err" </dev/null || status=$?
	if [ "$status" -ne 1 ] || [ "$(cat "$work/err")" != "$1: standard output: No space left on device" ]; then
		echo "$*: it ended with $status and said: $(cat "$work/err")"
		failed=1
	fi
}

for program in nanoctrl peeragent slime-bench slime-cache slime slime-measure slime-reference; do
	[ -x "$bin/$program" ] || continue
	full "$program" --help
	full "$program" --version
done
for program in nanoctrl peeragent slime-bench; do
	[ ! -x "$bin/$program" ] || full "$program" --help=settings
done
if [ -x "$bin/slime-bench" ]; then
	full slime-bench rpc --help
	printf 'size,avg_us,p50_us,p99_us,bw_gbps\n1024,1,1,2,3\n' >"$work/slime_rpc.csv"
	full slime-bench compare "$work"
	full slime-bench compare "$work" --csv
fi
[ ! -x "$bin/nanoctrl" ] || full nanoctrl status --runtime-dir "$work/none"
[ ! -x "$bin/slime-cache" ] || full slime-cache status --runtime-dir "$work/none"
[ ! -x "$bin/peeragent" ] || full peeragent --config configs/quickstart/node-a.yaml --print-config
exit "$failed"
