#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two nanoctrl on one Redis: what one is told the other knows, a lease ends once, and when one of them dies its agents go
# on at the other.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/beside.sh"

# agent_at REPLICA NAME: what that replica says of it.
agent_at() {
	curl -sf "${urls[$1]}/v1/agents/$2?scope=test"
}

# Of one that cannot be asked, nothing is known.
gone_at_both() {
	local replica

	for replica in one two; do
		[ "$(curl -s -o /dev/null -w '%{http_code}' "${urls[$replica]}/v1/agents/$1?scope=test")" = 404 ] || return 1
	done
}

in_session() {
	grep -q '"session":true' <<<"$(agent_at "$1" "$2")"
}

hold_port # of the one that will be away for a while
start_beside "$port"
in_session two node-a || fail "the second replica does not know the agent of the first"
in_session one node-b || fail "the first replica does not know the agent of the second"

say "a lease ends: once, whoever ends it"
spend 4 # for a whole lease after their start they give nobody up
cursor=$(curl -sf "${urls[one]}/v1/agents?scope=test" | sed 's/.*"cursor":"\([^"]*\)".*/\1/')
end node-b KILL
wait_for 10 gone_at_both node-b || fail "its lease is still there"
events=$(curl -sf "${urls[one]}/v1/events?scope=test&cursor=$cursor&wait_ms=0")
[ "$(grep -o '"type":"expired"' <<<"$events" | wc -l)" = 1 ] || fail "not told once: $events"
expired_once() {
	[ "$(($(n_expired one) + $(n_expired two)))" = 1 ]
}
wait_for 5 expired_once || fail "not ended once"
start_agent_at node-b two one
wait_ready node-b
wait_link 15 node-a node-b default connected

say "a replica dies: its agents go on at the other"
connects=$(metric node-a slime_link_connects_total 'profile="default"')
before=$(generations)
end one KILL
wait_for 10 in_session two node-a || fail "node-a did not come over"
spend 5 # longer than a lease
in_session two node-a || fail "node-a did not stay"
assert_untouched "$before" "$connects"

say "a new agent passes over the dead one"
start_agent_at node-c one two 'links: [ { to: node-a } ]'
wait_ready node-c
wait_link 10 node-c node-a default connected

say "the replica comes back"
start_replica one "$port"
wait_for 15 agent_at one node-c || fail "it does not know who is there"
