# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Two agents and the link between them, for tests that take from nanoctrl what it stands on: sourced behind cluster.sh.

write_pair() {
	write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
	write_agent node-b 'metrics: { listen: "127.0.0.1:0" }'
}

start_pair() {
	start_agent node-a
	start_agent node-b
	wait_ready node-a node-b
	wait_for 10 pair_is_there || fail "not there: $(links)"
}

# Both are registered, and linked.
pair_is_there() {
	agent_is_there node-a && agent_is_there node-b && link_is node-a node-b default connected &&
		link_is node-b node-a default connected
}

# pair_is_untouched: no process has ended, and no link was made again.
pair_is_untouched() {
	local name

	for name in node-a node-b; do
		kill -0 "${pids[$name]}" || fail "$name ended"
		[ "$(metric "$name" slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link of $name was touched"
	done
}

nobody_was_given_up() {
	grep 'scope test: .* leases ended' "$work/nanoctrl.err" && fail "somebody was given up"
	return 0
}

# beats_go_on WHERE: both agents' beats are taken. due WHERE AGENT is the test's: when that lease ends, by Redis.
beats_go_on() {
	local a b

	a=$(due "$1" node-a)
	b=$(due "$1" node-b)
	later() {
		[ "$(due "$1" node-a)" -gt "$a" ] && [ "$(due "$1" node-b)" -gt "$b" ]
	}
	wait_for 10 later "$1" || fail "beats are not taken: at first $a $b, then $(due "$1" node-a) $(due "$1" node-b)"
}

# The end of such a test: what keeps the living does not keep the dead.
a_dead_agent_is_given_up() {
	say "and a dead agent still is given up"
	end node-b KILL
	wait_for 20 agent_is_gone node-b || fail "its lease is still there"
	wait_for 10 agent_is_there node-a || fail "node-a is gone, too"
}
