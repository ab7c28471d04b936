#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl, then Redis, killed and restarted, with and without its data: running links do not notice, and the agents go
# on. Where the data are kept nobody is given up, and nobody has to register again.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/pair.sh"

# Nobody is given up for one lease after a restart, and an agent lets up to 5 s pass between two attempts.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'regions: [ { name: kv, size: 64KiB } ]' 'metrics: { listen: "127.0.0.1:0" }'

start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected
registered=$(generations)

state_is() {
	[ "$(metric "$1" slime_agent_state "state=\"$2\"")" = 1 ]
}

all_there() {
	pair_is_there && curl -sf "$url/v1/agents/node-b/regions/kv?scope=test" >/dev/null
}

due() { # SERVER AGENT
	redis-cli -s "$work/$1.sock" zscore '{test}:nanoctrl:due' "$2"
}

# What Redis kept is there at once: that the agents are, their beats show.
they_go_on() {
	wait_for 5 all_there || fail "not registered: $(links)"
	beats_go_on redis
	[ "$(generations)" = "$registered" ] || fail "somebody had to register again"
	nobody_was_given_up
	pair_is_untouched
}

say "nanoctrl killed and restarted"
end nanoctrl KILL
wait_for 10 state_is node-a detached || fail "node-a does not know that nanoctrl is away"
wait_for 5 grep -q "$url: .*: trying again in" "$work/node-a.err" || fail "node-a does not say that it tries again"
pair_is_untouched
start_nanoctrl
they_go_on

say "nanoctrl away for longer than a lease"
end nanoctrl KILL
spend 9
start_nanoctrl
they_go_on

say "Redis killed and restarted with its data"
end redis KILL
spend 1
start_redis
they_go_on

say "Redis restarted without its data"
end redis KILL
rm -rf "$work/appendonlydir" "$work"/appendonly.aof* "$work/dump.rdb"
start_redis
wait_for 10 all_there || fail "not registered again: $(links)"
pair_is_untouched

say "and the link is still brought up again when it breaks"
end node-b KILL
start_agent node-b
wait_ready node-b
wait_link 10 node-a node-b default connected
