#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-on-hardware.sh, as if rxe5 and rxe4 were adapters: some tests, and the smallest row of its measurements. What is measured
# beside other tests, of a build that may have sanitizers, means nothing: the row may miss its target.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

row=rdma-write-lat-64
status=0
"$(dirname "${BASH_SOURCE[0]}")/run-on-hardware.sh" --tests "rdma-(faults-peer|libslime-op|devices)$" --rows "$row" --bin "$bin" \
	rxe5 rxe4 >"$work/out" 2>&1 || status=$?
cat "$work/out"
grep -q '^0 failed, [0-9]* of the laboratory were left out$' "$work/out" || {
	cat "${SLIME_BUILD:?}"/rdma/hardware/*.out
	fail "a test failed"
}
grep -q '^# rdma devices: rxe5 and rxe4$' "$work/out" || fail "it measured elsewhere"
read -r -a words < <(grep "^$row " "$work/out") || fail "no figures"
case ${words[*]} in
*" soft-RoCE ok" | *" soft-RoCE emulated" | *" soft-RoCE not installed") expected=0 ;;
*" soft-RoCE MISS" | *" soft-RoCE unsettled") expected=1 ;;
*) fail "no verdict: ${words[*]}" ;;
esac
[ "$status" -eq "$expected" ] || fail "it ended with $status"
