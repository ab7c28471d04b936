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

for name in "$host" decode-0 decode-1; do
	end "$name"
	[ "$status" -eq 0 ] || fail "$name ended with $status"
done
