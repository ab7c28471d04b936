# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Two nanoctrl on one Redis, `one` and `two`, and agents that know both: sourced behind cluster.sh.

declare -A urls=()

# start_replica NAME [PORT]
start_replica() {
	spawn "$1" "$bin/nanoctrl" server --port "${2:-0}" --runtime-dir "$work/run-$1" \
		--redis-url "unix://$work/redis.sock" "${lease[@]}"
	wait_for 15 grep -q 'serves at' "$work/$1.out" || fail "$1 does not serve"
	urls[$1]=$(sed -n 's/.*serves at //p' "$work/$1.out")
}

# start_agent_at NAME FIRST SECOND [LINE...]
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

# start_beside PORT: both, the first at that port, with an agent at each, and the link between the two. What else is
# asked is asked of the second.
start_beside() {
	start_redis
	start_replica one "$1"
	start_replica two
	url=${urls[two]}
	start_agent_at node-a one two 'links: [ { to: node-b } ]'
	start_agent_at node-b two one
	wait_ready node-a node-b
	wait_link 10 node-a node-b default connected
	wait_link 10 node-b node-a default connected
}

# metric_at REPLICA NAME
metric_at() {
	curl -sf "${urls[$1]}/metrics" | sed -n "s/^$2 //p"
}

n_expired() {
	metric_at "$1" nanoctrl_leases_expired_total
}

# assert_untouched GENERATIONS CONNECTS: nobody had to register again, and the link was not made again.
assert_untouched() {
	[ "$(generations)" = "$1" ] || fail "somebody had to register again"
	[ "$(metric node-a slime_link_connects_total 'profile="default"')" = "$2" ] || fail "the link was touched"
}
