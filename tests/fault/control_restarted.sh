#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl, then Redis, killed and restarted, with and without its data: running links do not notice, and the agents are
# registered again within 5 s.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/pair.sh"

write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'regions: [ { name: kv, size: 64KiB } ]' 'metrics: { listen: "127.0.0.1:0" }'

start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected

state_is() {
	[ "$(metric "$1" slime_agent_state "state=\"$2\"")" = 1 ]
}

all_there() {
	pair_is_there && curl -sf "$url/v1/agents/node-b/regions/kv?scope=test" >/dev/null
}

say "nanoctrl killed and restarted"
end nanoctrl KILL
wait_for 10 state_is node-a detached || fail "node-a does not know that nanoctrl is away"
wait_for 5 grep -q "$url: .*: trying again in" "$work/node-a.err" || fail "node-a does not say that it tries again"
pair_is_untouched
start_nanoctrl
wait_for 5 all_there || fail "not registered again: $(links)"
pair_is_untouched

say "nanoctrl away for longer than a lease"
end nanoctrl KILL
spend 5
start_nanoctrl
wait_for 5 all_there || fail "not registered again: $(links)"
pair_is_untouched

say "Redis killed and restarted with its data"
end redis KILL
spend 3
start_redis
wait_for 10 all_there || fail "not registered again: $(links)"
pair_is_untouched

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
