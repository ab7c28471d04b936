#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A primary that takes no write which nobody has a copy of loses its only replica for longer than a lease: writes are
# refused meanwhile, beats too, and when the replica is back every agent is where it was.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

# Nobody is to lose a lease because the machine stood still for a moment.
lease=(--set lease.ttl=6s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

command -v redis-server >/dev/null || skip "redis-server is not installed"

start_copy() { # NAME [PRIMARY'S PORT]
	mkdir -p "$work/$1"
	spawn "$1" redis-server --port "$([ $# -gt 1 ] && echo 0 || echo "$primary_port")" --bind 127.0.0.1 --dir "$work/$1" \
		--unixsocket "$work/$1.sock" --save '' --appendonly yes --appendfsync always --min-replicas-to-write 1 \
		--min-replicas-max-lag 3 --repl-diskless-sync-delay 0 ${2:+--replicaof 127.0.0.1 "$2"}
	wait_for 10 redis-cli -s "$work/$1.sock" ping || fail "$1 does not answer"
}

n_copies_is() {
	redis-cli -s "$work/redis.sock" info replication | tr -d '\r' | grep -qx "min_slaves_good_slaves:$1"
}

all_there() {
	agent_is_there node-a && agent_is_there node-b && link_is node-a node-b default connected &&
		link_is node-b node-a default connected
}

# register_other: the HTTP status.
register_other() {
	curl -s -o "$work/answer" -w '%{http_code}' -X PUT "$url/v1/agents/other?scope=other" \
		-H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}'
}

refuses() {
	[ "$(register_other)" = 503 ]
}

takes() {
	[ "$(register_other)" = 200 ] || [ "$(register_other)" = 201 ]
}

hold_port
primary_port=$port
pids[hold-primary]=${pids[port]}
unset "pids[port]"
port=
start_copy redis
start_copy copy "$primary_port"
wait_for 20 n_copies_is 1 || fail "no replica: $(tail -n 20 "$work/copy.out")"
start_nanoctrl
write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'metrics: { listen: "127.0.0.1:0" }'
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_for 10 all_there || fail "not there: $(links)"
before=$(generations)

say "the replica is killed"
end copy KILL
wait_for 10 refuses || fail "writes are taken: $(cat "$work/answer")"
grep -q '"outcome":"not_executed"' "$work/answer" || fail "it does not say what became of it: $(cat "$work/answer")"
wait_for 5 grep -q 'no lease ends for .*NOREPLICAS' "$work/nanoctrl.err" || fail "nanoctrl does not say so"
spend 9 # longer than a lease
agent_is_there node-a || fail "what is stored is not to be read"

say "it comes back"
start_copy copy "$primary_port"
wait_for 10 takes || fail "writes are refused: $(cat "$work/answer")"
spend 8 # longer than a lease
[ "$(generations)" = "$before" ] || fail "somebody had to register again"
grep 'scope test: .* leases ended' "$work/nanoctrl.err" && fail "somebody was given up"
for name in node-a node-b; do
	kill -0 "${pids[$name]}" || fail "$name ended"
	[ "$(metric "$name" slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link of $name was touched"
done

say "and a dead agent still is given up"
end node-b KILL
wait_for 20 agent_is_gone node-b || fail "its lease is still there"
agent_is_there node-a || fail "node-a is gone, too"
