#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What operations cost where noise does not reach: instructions and system calls, of both ends together, with one thread
# stepping them in turn.
set -euo pipefail
. "$SLIME_SOURCE/tests/project/files.sh"

need valgrind
need strace
steps=$SLIME_BUILD/tests/test-bench-steps
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
failed=0
left_out=() # options of callgrind for what is not ours

# at_most LIMIT FIGURE WHAT
at_most() {
	awk -v limit="$1" -v figure="$2" -v what="$3" 'BEGIN {
		bad = figure + 0 > limit + 0
		printf "%-44s %9.2f  at most %s%s\n", what, figure, limit, bad ? "  FAILED" : ""
		exit bad
	}'
}

# What callgrind collects in FUNCTION while the case is repeated N times: collected CASE N FUNCTION
collected() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$3" "${left_out[@]}" "$steps" "$1" "$2" \
		>"$work/callgrind" 2>&1 || {
		cat "$work/callgrind" >&2
		return 1
	}
	sed -n 's/.*Collected : //p' "$work/callgrind"
}

# instructions RECORDED CASE N FUNCTION UNITS: what an operation adds, for each of its UNITS. RECORDED is what it was when
# somebody last looked; a tenth more is let through. Who makes it less writes it down here.
instructions() {
	local few many

	few=$(collected "$2" "$3" "$4")
	many=$(collected "$2" $((3 * $3)) "$4")
	if [ "${few:-0}" -eq 0 ] || [ "${many:-0}" -eq 0 ]; then
		echo "callgrind counted nothing in $4"
		exit 1
	fi
	at_most "$(awk "BEGIN { print int($1 * 1.1) }")" "$(awk "BEGIN { print ($many - $few) / 2 / $3 / $5 }")" \
		"instructions: $2, in $4" || failed=1
}

instructions 1539 shm-call 500 counted_steps 1
instructions 1026 shm-calls 20 counted_steps 64
instructions 888 shm-calls-together 20 counted_steps 64
instructions 965 shm-read 500 counted_steps 1
instructions 1005 shm-pieces 2 counted_steps 15000
# A batch that was prepared: pieces are not looked at before their turn.
instructions 877 shm-read-prepared 500 counted_submit 1
instructions 17 shm-pieces-prepared 2 counted_submit 15000
instructions 13 tcp-pieces-prepared 2 counted_submit 15000
instructions 5501 tcp-call 500 counted_steps 1
instructions 5819 tcp-read 500 counted_steps 1
instructions 397 tcp-pieces 2 counted_steps 15000
instructions 46 tcp-pieces 2 counted_post 15000
# With 64 more clients that are idle: a server pays for the active ones.
instructions 1720 shm-call-among-idle 500 counted_steps 1
instructions 5525 tcp-call-among-idle 500 counted_steps 1

# What the caller of a batch of 15 000 pieces waits for: half of it is what the device in memory does with the first 384 of
# them, and the others are posted by who polls. It is to be less than a millisecond, and is, at 0.6 instructions a cycle.
steps+=-rdma
instructions 1402119 rdma-pieces 2 counted_post 1
# Between submit and post, of one work request and for each of 256: without what the device in memory does with them.
left_out=(--toggle-collect=fv_post_send)
instructions 456 rdma-read 500 counted_post 1
instructions 276 rdma-chain 20 counted_post 256
instructions 413 rdma-read-prepared 500 counted_submit 1
instructions 245 rdma-chain-prepared 20 counted_submit 256
# Each of 15 000 from the start to the end, completions and polls of both ends among it.
instructions 309 rdma-pieces 2 counted_steps 15000
# Besides its start what the two completions of a call come to, the handler and the reply among it. Many calls: how many
# receives are seen to be flushed at the end differs.
left_out+=(--toggle-collect=rdma_completed --toggle-collect=fv_post_recv)
instructions 1709 rdma-call 3000 slime_call_start 1
steps=${steps%-rdma}
left_out=()

# strace's table as lines "CALL COUNT".
calls() {
	strace -f -c -U name,calls -o "$work/table" "$steps" "$1" "$2"
	awk '$2 ~ /^[0-9]+$/ && $1 != "total" { print $1, $2 }' "$work/table"
}

# Lines "CALL FIGURE": what an operation adds, without what the link takes to come and go.
calls_of_one() {
	calls "$1" 500 >"$work/few"
	calls "$1" 2500 >"$work/many"
	awk 'NR == FNR { few[$1] = $2; next } { printf "%s %.3f\n", $1, ($2 - few[$1]) / 2000 }' \
		"$work/few" "$work/many" >"$work/one"
}

# system_calls CASE (LIMIT PATTERN)...: other work lengthens rounds and adds some, so one of three tries has to do.
system_calls() {
	local tries=3

	until calls_of_one "$1" && within "$@" >"$work/judged" || [ $((--tries)) -eq 0 ]; do :; done
	cat "$work/judged"
	! grep -q FAILED "$work/judged" || failed=1
}

# within CASE (LIMIT PATTERN)...
within() {
	local case=$1 bad=0
	shift

	while [ $# -gt 0 ]; do
		at_most "$1" "$(awk -v pattern="^($2)\$" '$1 ~ pattern { n += $2 } END { print n + 0 }' "$work/one")" \
			"system calls: $case, $2" || bad=1
		shift 2
	done
	return $bad
}

# The poller is looked at when 50 us have passed, however many operations that were.
for case in shm-call shm-read; do
	system_calls $case 0.2 '.*'
done
# A request and its answer: each end sends once and receives once.
for case in tcp-call tcp-read; do
	system_calls $case 2.1 'send.*|write.*' 2.1 'recv.*|read.*' 0.2 'epoll_.*|poll|futex|[gs]etsockopt'
done
exit $failed
