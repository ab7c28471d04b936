#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of two nanoctrl one stands still, then both, for longer than a lease: no connection breaks, and nobody is given up.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/beside.sh"

# Of a server that says nothing an agent knows after (ttl + beat) / 2.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

# Both agents.
in_session_at_two() {
	[ "$(metric_at two nanoctrl_sessions)" = 2 ]
}

nobody_was_given_up() {
	assert_untouched "$before" 1
	[ "$(n_expired one) $(n_expired two)" = "0 0" ] || fail "a lease was ended"
}

start_beside 0
before=$(generations)
spend 9 # for a whole lease after their start they give nobody up

say "a replica stands still: its agent goes on at the other one before its lease ends"
kill -STOP "${pids[one]}"
wait_for 10 in_session_at_two || fail "node-a did not come over"
spend 9
[ "$(generations)" = "$before" ] || fail "node-a had to register again"
kill -CONT "${pids[one]}"
nobody_was_given_up

say "both stand still for longer than a lease"
kill -STOP "${pids[one]}" "${pids[two]}"
spend 10
kill -CONT "${pids[one]}" "${pids[two]}"
spend 2
nobody_was_given_up
spend 9
nobody_was_given_up
