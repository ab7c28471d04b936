#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime call and slime doctor beside real agents: a method from the shell, and what is wrong when it does not go.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

write_agent node-a 'services: [ { name: echo } ]'
start_control
start_agent node-a
wait_ready node-a

# slime STATUS ARGUMENT...
slime() {
	local status=0

	SLIME_CTRL=$url "$bin/slime" "${@:2}" >"$work/slime.out" 2>"$work/slime.err" || status=$?
	[ "$status" -eq "$1" ] || fail "slime ${*:2}: it ended with $status: $(cat "$work/slime.out" "$work/slime.err")"
}

say "a method by its name"
slime 0 call --scope test node-a echo "hello there"
[ "$(cat "$work/slime.out")" = "hello there" ] || fail "the reply is $(cat "$work/slime.out")"
slime 0 call --scope test node-a echo
[ ! -s "$work/slime.out" ] || fail "an empty request has a reply"

say "a long request from standard input, over tcp"
head -c 3000000 /dev/urandom >"$work/long"
slime 0 call --scope test --transport tcp node-a echo - <"$work/long"
cmp "$work/long" "$work/slime.out" || fail "the reply has other bytes"

say "what does not go"
slime 1 call --scope test node-a nothing x
grep -q '^slime: call: nothing: the agent has no such method$' "$work/slime.err" || fail "$(cat "$work/slime.err")"
slime 1 call --scope test node-z echo x
grep -q '^slime: call: node-z: it is not registered in scope test' "$work/slime.err" || fail "$(cat "$work/slime.err")"
slime 2 call --scope test node-a
slime 1 call --ctrl http://127.0.0.1:1 --timeout 300ms --scope test node-a echo x
grep -q 'not registered with nanoctrl at http://127.0.0.1:1' "$work/slime.err" || fail "$(cat "$work/slime.err")"

say "a peer's data ports"
status=0
"$bin/slime" doctor --ctrl "$url" --scope test --peer node-a --timeout 3s >"$work/slime.out" || status=$?
grep -q '^ok    nanoctrl .* is ready' "$work/slime.out" || fail "$(cat "$work/slime.out")"
grep -q '^ok    peer, shm     node-a: connected' "$work/slime.out" || fail "$(cat "$work/slime.out")"
grep -q '^ok    peer, tcp     node-a: connected to ' "$work/slime.out" || fail "$(cat "$work/slime.out")"
grep -q '^note  peer, rdma    node-a: ' "$work/slime.out" || fail "$(cat "$work/slime.out")"
