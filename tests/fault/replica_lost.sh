#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A primary that takes no write which nobody has a copy of loses its only replica for longer than a lease: writes are
# refused meanwhile, beats too, and when the replica is back every agent is where it was.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/pair.sh"

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

# register_other: the HTTP status.
register_other() {
	curl -s -o "$work/answer" -w '%{http_code}' -X PUT "$url/v1/agents/other?scope=other&order=1" \
		-H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}'
}

refuses() {
	[ "$(register_other)" = 503 ]
}

takes() {
	[ "$(register_other)" = 200 ] || [ "$(register_other)" = 201 ]
}

take_port primary
primary_port=${port_of[primary]}
start_copy redis
start_copy copy "$primary_port"
wait_for 20 n_copies_is 1 || fail "no replica: $(tail -n 20 "$work/copy.out")"
start_nanoctrl
write_pair
start_pair
before=$(generations)

say "the replica is killed"
end copy KILL
wait_for 10 refuses || fail "writes are taken: $(cat "$work/answer")"
grep -q '"outcome":"not_executed"' "$work/answer" || fail "it does not say what became of it: $(cat "$work/answer")"
wait_for 5 grep -q 'Redis refuses writes: NOREPLICAS' "$work/nanoctrl.err" || fail "nanoctrl does not say so"
spend 9 # longer than a lease
agent_is_there node-a || fail "what is stored is not to be read"

say "it comes back"
start_copy copy "$primary_port"
wait_for 10 takes || fail "writes are refused: $(cat "$work/answer")"
spend 8 # longer than a lease
[ "$(generations)" = "$before" ] || fail "somebody had to register again"
nobody_was_given_up
pair_is_untouched

a_dead_agent_is_given_up
