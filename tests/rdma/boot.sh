#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# boot.sh LIST RESULTS: one guest for all tests of label rdma, before ctest asks for their results (recorded.sh). Tests
# that fail do not make this fail, they say it themselves; it fails when the guest could not run them.
#
#   RDMA_LAB=required  what cannot be run here is a failure, and not skipped
#   RDMA_RUNNER=FILE   runs commands instead of guest.sh, and as it does
#   RDMA_TESTS=REGEX   only tests whose names match
set -uo pipefail

list=$1
results=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
limit=1800 # seconds for all of them, once the guest is up

rm -rf "$results"
mkdir -p "$results"
awk -F '\t' -v wanted="${RDMA_TESTS:-}" '$1 ~ wanted' "$list" >"$results/list"

# The guest's command begins with no environment.
passed=()
for name in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LSAN_OPTIONS SLIME_BIN SLIME_BUILD SLIME_SOURCE; do
	[ -z "${!name:-}" ] || passed+=("$name=${!name}")
done

status=0
"${RDMA_RUNNER:-$here/guest.sh}" --dir "$results" --timeout "$limit" -- \
	env "${passed[@]}" "$here/run-list.sh" "$results" "$results/list" >"$results/log" 2>&1 || status=$?
cat "$results/log"
if [ "$status" -eq 77 ]; then
	if [ "${RDMA_LAB:-}" = required ]; then
		echo "RDMA_LAB=required: this is a failure"
		exit 1
	fi
	exit 77
fi
if [ ! -e "$results/devices" ]; then
	exit 1
fi
# What the guest died of is reported by the tests that did not end, if there are any.
ended=$(find "$results" -name '*.status' | wc -l)
[ "$status" -eq 0 ] || [ "$ended" -lt "$(wc -l <"$results/list")" ]
