#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# recorded.sh RESULTS NAME: says what a test said in the guest that boot.sh ran, and ends as it ended.
set -euo pipefail

results=$1
name=$2

[ ! -e "$results/$name.out" ] || cat "$results/$name.out"
if [ -e "$results/$name.status" ]; then
	exit "$(<"$results/$name.status")"
fi
if [ -e "$results/devices" ] && grep -q "^$name"$'\t' "$results/list"; then
	echo "it did not end in the guest:"
	tail -n 60 "$results/log"
	exit 1
fi
echo "skipped: $(tail -n 1 "$results/log" 2>/dev/null || echo "no guest ran")"
exit 77
