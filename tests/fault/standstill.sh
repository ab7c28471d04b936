#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of two nanoctrl one stands still, then both, for longer than a lease: no connection breaks, and nobody is given up.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

# Of a server that says nothing an agent knows after (ttl + beat) / 2.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

declare -A urls=()

start_replica() {
	spawn "$1" "$bin/nanoctrl" server --port 0 --runtime-dir "$work/run-$1" --redis-url "unix://$work/redis.sock" \
		"${lease[@]}"
	wait_for 15 grep -q 'serves at' "$work/$1.out" || fail "$1 does not serve"
	urls[$1]=$(sed -n 's/.*serves at //p' "$work/$1.out")
}

start_agent_at() {
	{
		echo "version: 1"
		echo "agent: { name: $1, scope: test, state_dir: $work/state }"
		echo "control: { urls: [ \"${urls[$2]}\", \"${urls[$3]}\" ] }"
		echo 'metrics: { listen: "127.0.0.1:0" }'
		printf '%s\n' "${@:4}"
	} >"$work/$1.yaml"
	spawn "$1" "$bin/peeragent" --config "$work/$1.yaml"
}

n_expired() {
	curl -sf "${urls[$1]}/metrics" | sed -n 's/^nanoctrl_leases_expired_total //p'
}

# Both agents.
in_session_at_two() {
	[ "$(curl -sf "${urls[two]}/metrics" | sed -n 's/^nanoctrl_sessions //p')" = 2 ]
}

nobody_was_given_up() {
	[ "$(generations)" = "$before" ] || fail "somebody had to register again"
	[ "$(n_expired one) $(n_expired two)" = "0 0" ] || fail "a lease was ended"
	[ "$(metric node-a slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link was touched"
}

start_redis
start_replica one
start_replica two
url=${urls[two]}
start_agent_at node-a one two 'links: [ { to: node-b } ]'
start_agent_at node-b two one
wait_ready node-a node-b
wait_link 10 node-a node-b default connected
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
