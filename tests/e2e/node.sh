#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One file for all nodes: what differs is said by --set, and nanoctrl may move.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

cp "${SLIME_SOURCE:?}/configs/node.yaml" "$work/node.yaml"

# start_node NAME ROLE [OPTION...]: an agent from the one file; NAME - is the host's.
start_node() {
	local as=() name=$1

	[ "$1" != - ] && as=(--set "agent.name=$1") || name=$(uname -n)
	spawn "$name" "$bin/peeragent" --config "$work/node.yaml" --set "control.url=$url" --set agent.scope=test \
		--set "agent.state_dir=$work/state" --set "agent.labels.role=$2" "${as[@]}" "${@:3}"
}

label_is() {
	grep -q "\"role\":\"$2\"" <<<"$(curl -sf "$url/v1/agents/$1?scope=test")"
}

start_control
host=$(uname -n)

say "an agent without a name is called as its host, and the others are named"
start_node - prefill
start_node decode-0 decode --set data.tcp.bind=lo
start_node decode-1 decode --set data.tcp.bind=127.0.0.1
wait_ready "$host" decode-0 decode-1
label_is "$host" prefill || fail "$host has no role"
label_is decode-1 decode || fail "decode-1 has no role"
grep -q '"zone":"a"' <<<"$(curl -sf "$url/v1/agents/decode-1?scope=test")" || fail "what the file says is lost"

say "the network and the interface are listened on"
printf 'version: 1\nname: t\nlinks:\n  - { mesh: "zone=a", transports: [tcp] }\n' >"$work/t.yaml"
"$bin/nanoctrl" apply -f "$work/t.yaml" --scope test --address "$url" || fail "apply: $?"
wait_link 10 decode-0 "$host" default connected tcp
wait_link 10 decode-1 "$host" default connected tcp
wait_link 10 decode-0 decode-1 default connected tcp
for name in "$host" decode-0 decode-1; do
	grep -q 'listening at 127.0.0.1:' "$work/$name.err" || fail "$name: $(cat "$work/$name.err")"
done

# control.url is in the file here: an option would go before it.
say "nanoctrl is at another place: SIGHUP tells the agents"
spawn second "$bin/nanoctrl" server --port 0 --runtime-dir "$work/second" --redis-url "unix://$work/redis.sock" "${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/second.out" || fail "the second nanoctrl does not serve"
second=$(sed -n 's/.*serves at //p' "$work/second.out")
sed "s|http://127.0.0.1:3000|$url|" "${SLIME_SOURCE:?}/configs/node.yaml" >"$work/moving.yaml"
spawn moving "$bin/peeragent" --config "$work/moving.yaml" --set agent.name=moving --set agent.scope=test --set "agent.state_dir=$work/state"
wait_ready moving
wait_link 10 moving decode-0 default connected tcp
sed -i "s|$url|$second|" "$work/moving.yaml"
kill -HUP "${pids[moving]}"
has_sessions() {
	[ "$(curl -sf "$second/metrics" | sed -n 's/^nanoctrl_sessions //p')" = "$1" ]
}
wait_for 10 has_sessions 1 || fail "it did not move"
end moving
[ "$status" -eq 0 ] || fail "moving ended with $status"
[ "$(grep -c 'link decode-0/default is connected' "$work/moving.err")" -eq 1 ] || fail "the link was closed meanwhile"

for name in "$host" decode-0 decode-1; do
	end "$name"
	[ "$status" -eq 0 ] || fail "$name ended with $status"
done
