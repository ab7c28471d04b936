#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A topology from a file: its links come up, follow agents that join and die, and go with it.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

write_agent prefill-0 'links: [ { to: decode-0, profile: own, transports: [tcp] } ]'
write_agent decode-0
write_agent decode-1 'data: { tcp: { bind: "" } }'
for node in prefill-0 decode-0 decode-1; do
	sed -i "s/name: $node,/name: $node, labels: { role: ${node%-*} },/" "$work/$node.yaml"
done
sed 's/^scope: .*/scope: test/; s/rdma, shm/shm/' "$(dirname "${BASH_SOURCE[0]}")/../../configs/cluster-prefill-decode.yaml" >"$work/serving.yaml"

ctl() {
	"$bin/nanoctrl" "$@" --address "$url"
}

no_link() {
	! link_is "$@"
}

topology_is() {
	ctl get topologies --scope test >"$work/topologies" && grep -qE -- "$1" "$work/topologies"
}

start_control

say "a file with a mistake is refused at its place"
printf 'version: 1\nname: t\nlinks:\n  - { mesh: "role=x", qsp: 4 }\n' >"$work/wrong.yaml"
! ctl apply -f "$work/wrong.yaml" 2>"$work/wrong.err" || fail "it was applied"
grep -q "^$work/wrong.yaml:4:23: links\[0\].qsp is unknown" "$work/wrong.err" || fail "$(cat "$work/wrong.err")"

say "diff tells of changes and makes none"
status=0
ctl diff -f "$work/serving.yaml" >"$work/diff" || status=$?
[ "$status" -eq 3 ] || fail "diff ended with $status"
grep -q '^  + {"from":"role=prefill"' "$work/diff" || fail "$(cat "$work/diff")"
ctl get topologies --scope test | grep -q serving && fail "diff applied it"

say "applied before anybody is there"
ctl apply -f "$work/serving.yaml" >"$work/apply" 2>"$work/warned" || fail "$(cat "$work/apply")"
for warning in 'no registered agent matches role=prefill' 'absent: role=decode: 0 of 2 are registered'; do
	grep -qxF "$work/serving.yaml: warning: $warning" "$work/warned" || fail "$(cat "$work/warned")"
done
ctl diff -f "$work/serving.yaml" >"$work/diff" || fail "what was applied is different: $(cat "$work/diff")"
wait_for 5 topology_is 'serving.* waiting .* 3 ' || fail "$(cat "$work/topologies")"

! ctl obs links --scope test --topology serving --wait 200ms 2>"$work/missing" || fail "nobody is there"
grep -q 'topology "serving" is waiting: absent: ' "$work/missing" || fail "$(cat "$work/missing")"

say "agents that come are linked"
for node in prefill-0 decode-0 decode-1; do
	start_agent "$node"
done
wait_ready prefill-0 decode-0 decode-1
wait_link 10 prefill-0 decode-0 kv connected shm
wait_link 10 prefill-0 decode-1 kv connected shm
wait_link 10 decode-0 decode-1 move connected shm
wait_link 10 prefill-0 decode-0 own connected tcp
ctl obs links --scope test --topology serving --wait 10s >"$work/waited" || fail "not all of them are there"
! grep -q ' own ' "$work/waited" || fail "a link of an agent's own is of the topology: $(cat "$work/waited")"
wait_for 5 topology_is 'serving.* ok .* 3 ' || fail "$(cat "$work/topologies")"

say "agents are listed with their labels"
ctl get agents --scope test | grep -q 'decode-1 .* role=decode' || fail "no table"
ctl get agents --scope test -o json >"$work/agents" || fail "get agents: $?"
python3 -c 'import json, sys; print(*sorted(a["labels"]["role"] for a in json.load(sys.stdin)))' <"$work/agents" |
	grep -qx 'decode decode prefill' || fail "$(cat "$work/agents")"
ctl get links --scope test | grep -q 'decode-1 .* connected ' || fail "no links"

say "both ends say who wants a link"
ctl explain decode-1 prefill-0 --scope test | grep -q 'wanted by  *topology serving$' || fail "decode-1 does not say so"
ctl explain prefill-0 --scope test >"$work/explained"
grep -q 'wanted by  *topology serving$' "$work/explained" || fail "$(cat "$work/explained")"
grep -q 'wanted by  *the agent$' "$work/explained" || fail "$(cat "$work/explained")"

say "the file of a node goes before a topology, and both ends say who wants the link"
printf 'version: 1\nname: other\nscope: test\nlinks:\n  - { pairs: [[prefill-0, decode-0]], profile: own, transports: [shm] }\n' >"$work/other.yaml"
connects_own() {
	grep -c 'link decode-0/own is connected over tcp' "$work/prefill-0.err"
}
before=$(connects_own)
ctl apply -f "$work/other.yaml" >/dev/null || fail "apply: $?"
both_say() {
	ctl explain prefill-0 decode-0 --scope test | grep -A12 'profile own: connected over tcp' | grep -q 'wanted by  *the agent$' &&
		ctl explain decode-0 prefill-0 --scope test | grep -A12 'profile own: connected over tcp' | grep -q 'wanted by  *topology other$'
}
wait_for 10 both_say || fail "$(ctl explain prefill-0 decode-0 --scope test; ctl explain decode-0 prefill-0 --scope test)"
[ "$(connects_own)" -eq "$before" ] || fail "the link of the file was made anew"
ctl delete topology other --scope test >/dev/null || fail "delete: $?"
wait_link 10 prefill-0 decode-0 own connected tcp

say "a link that another topology names is refused at its place, and taken over with --force"
mkdir "$work/dir"
printf 'version: 1\nname: one\nscope: test\nlinks:\n  - { pairs: [[x, y]] }\n' >"$work/dir/one.yaml"
printf 'version: 1\nname: two\nscope: other\nlinks:\n  - { pairs: [[x, y]] }\n' >"$work/dir/two.yml"
ctl apply -f "$work/dir" >"$work/apply" || fail "a directory of two scopes: $(cat "$work/apply")"
grep -qx 'topology two (scope other): created' "$work/apply" || fail "$(cat "$work/apply")"
printf 'version: 1\nname: three\nscope: test\nlinks:\n  - { mesh: "role=x" }\n  - { pairs: [[v, w], [y, x]] }\n' >"$work/three.yaml"
! ctl apply -f "$work/three.yaml" 2>"$work/conflict" || fail "it was applied"
grep -qxF "$work/three.yaml:6:23: links[1].pairs[1] names a link of topology one; --force takes it over" "$work/conflict" ||
	fail "$(cat "$work/conflict")"
ctl apply -f "$work/three.yaml" --force --dry-run >"$work/dry" || fail "dry run: $?"
grep -qx 'topology one (scope test): changed' "$work/dry" || fail "$(cat "$work/dry")"
! ctl get topologies --scope test | grep -q '^three ' || fail "a dry run applied it"
ctl apply -f "$work/three.yaml" --force >"$work/apply" 2>&1 || fail "force: $(cat "$work/apply")"
ctl get topologies --scope test -o json | grep -q '"name":"one".*"links":\[\]' || fail "$(ctl get topologies --scope test -o json)"
for name in one three; do
	ctl delete topology $name --scope test >/dev/null || fail "delete $name: $?"
done

say "an agent that cannot have a link refuses it, with the reason"
printf 'version: 1\nname: over-tcp\nscope: test\nlinks:\n  - { pairs: [[prefill-0, decode-1]], profile: bulk, transports: [tcp] }\n' >"$work/over-tcp.yaml"
ctl apply -f "$work/over-tcp.yaml" >/dev/null || fail "apply: $?"
wait_link 10 decode-1 prefill-0 bulk refused
wait_link 10 prefill-0 decode-1 bulk broken
ctl get links --scope test --state refused >"$work/refused"
grep -q 'decode-1 .* refused .* topology over-tcp .* tcp: we do not listen' "$work/refused" || fail "$(cat "$work/refused")"
! ctl obs links --scope test --topology over-tcp --wait 100ms >/dev/null 2>&1 || fail "it is connected"
sed -i 's/\[tcp\]/[tcp, shm]/' "$work/over-tcp.yaml"
ctl apply -f "$work/over-tcp.yaml" --prune >/dev/null || fail "apply: $?"
ctl obs links --scope test --topology over-tcp --wait 10s >"$work/waited" || fail "it is refused: $(cat "$work/waited")"
ctl delete topology over-tcp --scope test >/dev/null || fail "delete: $?"

say "an agent that is killed is left out, and linked when it is back"
end decode-1 KILL
wait_for 10 agent_is_gone decode-1 || fail "decode-1 is registered"
wait_for 5 topology_is 'serving.* waiting .* 1 ' || fail "$(cat "$work/topologies")"
wait_for 10 no_link prefill-0 decode-1 || fail "the link is wanted on"
! ctl obs links --scope test --topology serving --wait 200ms 2>"$work/missing" || fail "nobody misses it"
grep -q 'absent: role=decode: 1 of 2 are registered' "$work/missing" || fail "$(cat "$work/missing")"
start_agent decode-1
wait_link 10 prefill-0 decode-1 kv connected
wait_link 10 decode-0 decode-1 move connected

say "an agent that leaves is left out at once"
end decode-1
[ "$status" -eq 0 ] || fail "decode-1 ended with $status"
wait_for 10 no_link prefill-0 decode-1 || fail "the link is wanted on"
start_agent decode-1
wait_link 10 prefill-0 decode-1 kv connected

# Its lease ends, and its list is gone; the link is whole.
say "an agent that stands still keeps its links"
connections() {
	grep -c 'link decode-1/kv is connected' "$work/prefill-0.err"
}
list_has() {
	curl -sf "$url/v1/agents/prefill-0/wanted?scope=test" | grep -q '"peer":"decode-1"'
}
list_lacks() {
	! list_has
}
before=$(connections)
kill -STOP "${pids[decode-1]}"
wait_for 10 agent_is_gone decode-1 || fail "decode-1 is registered"
wait_for 5 list_lacks || fail "the list names decode-1"
kill -CONT "${pids[decode-1]}"
wait_for 10 list_has || fail "decode-1 did not come back"
wait_link 10 decode-1 prefill-0 kv connected
wait_link 5 prefill-0 decode-1 kv connected
[ "$(connections)" -eq "$before" ] || fail "the link was closed meanwhile"

say "nanoctrl that is killed changes nothing"
end nanoctrl KILL
start_nanoctrl
wait_link 15 prefill-0 decode-1 kv connected
wait_for 5 topology_is 'serving.* ok .* 3 ' || fail "$(cat "$work/topologies")"

say "a topology that goes takes its links along, and no others"
ctl delete topology serving --scope test || fail "delete: $?"
wait_for 10 no_link decode-0 decode-1 move || fail "$(links)"
wait_for 10 no_link prefill-0 decode-1 kv || fail "$(links)"
wait_link 5 prefill-0 decode-0 own connected
! ctl delete topology serving --scope test 2>"$work/deleted" || fail "it was there"
grep -qxF 'nanoctrl: there is no topology "serving" in scope test; --scope names another scope' "$work/deleted" || fail "$(cat "$work/deleted")"

for node in prefill-0 decode-0 decode-1; do
	end "$node"
	[ "$status" -eq 0 ] || fail "$node ended with $status"
done
