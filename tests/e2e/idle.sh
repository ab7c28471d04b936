#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What an agent that does nothing costs: CPU time of two connected agents over some seconds, memory beside regions, and
# what Redis is asked.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

write_agent node-a 'links: [ { to: node-b, profile: shm, transports: [shm] }, { to: node-b, profile: tcp, transports: [tcp] } ]'
write_agent node-b 'services: [ { name: echo } ]'
start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b shm connected
wait_link 10 node-a node-b tcp connected

rss_kib() {
	awk '/^RssAnon:|^RssFile:/ { sum += $2 } END { print sum }' "/proc/${pids[$1]}/status"
}

# Commands that Redis has run, those inside of scripts among them.
asked() {
	redis-cli -s "$work/redis.sock" info stats | tr -d '\r' | sed -n 's/^total_commands_processed://p'
}

# The sanitizers' own memory and time say nothing about the program.
sanitized=$(nm -D "$bin/peeragent" 2>/dev/null | grep -c -m 1 '__asan_init\|__tsan_init' || true)
seconds=10
declare -A before=([a]=$(ticks "${pids[node-a]}") [b]=$(ticks "${pids[node-b]}"))
asked_before=$(asked)
began=$SECONDS
spend "$seconds"
asked=$(($(asked) - asked_before))
took=$((SECONDS - began + 1))
per_second=$(getconf CLK_TCK)
for name in a b; do
	used=$(($(ticks "${pids[node-$name]}") - before[$name]))
	rss=$(rss_kib "node-$name")
	echo "node-$name: $used ticks of $((seconds * per_second)), $rss KiB"
	# One per cent of a core, and as much again for the coarseness of ticks.
	[ "$used" -le $((seconds * per_second / 100 + 10)) ] || fail "node-$name is not idle"
	[ "$sanitized" -gt 0 ] || [ "$rss" -lt 16384 ] || fail "node-$name has $rss KiB"
done
# The beats of two agents and the rounds of one server, at five times the rate of the defaults.
echo "redis: $asked commands in $took s"
[ "$asked" -gt 0 ] || fail "Redis does not say what it was asked"
[ "$asked" -le $((took * 100)) ] || fail "Redis is asked too often"
