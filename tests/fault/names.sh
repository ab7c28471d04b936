#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two agents of one name: without the owner key the second one is refused; with it, the first one stops.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

write_agent node-a 'links: [ { to: node-b } ]'
write_agent node-b
start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected

say "a stranger"
sed "s,$work/state,$work/other," "$work/node-a.yaml" >"$work/stranger.yaml"
start_agent stranger
reap stranger
[ "$status" -eq 1 ] || fail "it ended with $status"
grep -q 'the name node-a is held by another agent' "$work/stranger.err" || fail "it does not say why"
is_ready stranger && fail "it was ready"
kill -0 "${pids[node-a]}" || fail "the first one ended"
link_is node-a node-b default connected || fail "the link of the first one is gone"

say "the owner"
cp "$work/node-a.yaml" "$work/heir.yaml"
start_agent heir
wait_ready heir
reap node-a
[ "$status" -eq 1 ] || fail "the first one ended with $status"
grep -q 'stopping: ' "$work/node-a.err" || fail "it does not say why"
wait_link 10 node-b node-a default connected
kill -0 "${pids[heir]}" || fail "the second one ended"
[ "$(stat -c %a "$work/state/test:node-a.key")" = 600 ] || fail "the owner key can be read by others"
