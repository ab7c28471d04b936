#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files configs/cluster-*.yaml with real agents, which join, leave and are killed.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

ctl() {
	"$bin/nanoctrl" "$@" --address "$url"
}

# join NAME LABELS: an agent with these labels from the one file of all nodes.
join() {
	spawn "$1" "$bin/peeragent" --config "${SLIME_SOURCE:?}/configs/node.yaml" --set "control.url=$url" --set agent.scope=test \
		--set "agent.state_dir=$work/state" --set "agent.name=$1" --set "agent.labels={$2}"
}

# apply FILE: a file of the repository, for this scope and this host.
apply() {
	sed 's/^scope: .*/scope: test/; s/rdma, shm, tcp/shm, tcp/' "$SLIME_SOURCE/configs/$1" >"$work/$1"
	ctl apply -f "$work/$1" >/dev/null || fail "apply $1: $?"
}

# whole NAME: all links and agents of the topology are there.
whole() {
	ctl obs links --scope test --topology "$1" --wait 30s >"$work/links" || fail "$1 is not whole: $(cat "$work/links")"
}

# The links that are wanted, one "a-b" for each, in order.
wanted() {
	ctl get links --scope test -o json | python3 -c '
import json, sys
print(*sorted({"-".join(sorted((l["agent"], l["peer"]))) for l in json.load(sys.stdin) if l["topology"] == sys.argv[1]}))' "$1"
}

wants() {
	[ "$(wanted "$1")" = "$2" ]
}

await_wanted() {
	wait_for 10 wants "$1" "$2" || fail "$1 wants $(wanted "$1"), not $2"
}

note_of() {
	grep -qF -- "$2" <<<"$(ctl describe topology "$1" --scope test)"
}

drop() {
	ctl delete topology "$1" --scope test || fail "delete $1: $?"
	for name in "${@:2}"; do
		end "$name"
		[ "$status" -eq 0 ] || fail "$name ended with $status"
	done
}

start_control

say "a trainer with rollout workers"
apply cluster-trainer.yaml
join trainer "role: trainer"
join rollout-0 "role: rollout"
join rollout-1 "role: rollout"
whole rollout
await_wanted rollout "rollout-0-trainer rollout-1-trainer"
say "a worker more, and one that is killed and comes back"
join rollout-2 "role: rollout"
await_wanted rollout "rollout-0-trainer rollout-1-trainer rollout-2-trainer"
whole rollout
end rollout-1 KILL
await_wanted rollout "rollout-0-trainer rollout-2-trainer"
whole rollout
join rollout-1 "role: rollout"
await_wanted rollout "rollout-0-trainer rollout-1-trainer rollout-2-trainer"
whole rollout
say "a worker that leaves"
end rollout-2
await_wanted rollout "rollout-0-trainer rollout-1-trainer"
whole rollout
drop rollout trainer rollout-0 rollout-1

say "a ring"
apply cluster-ring.yaml
for rank in 0 1 2 3; do
	join "s$rank" "role: stage, rank: '$rank'"
done
whole pipeline
await_wanted pipeline "s0-s1 s0-s3 s1-s2 s2-s3"
connects() {
	grep -c 'link s0/default is connected' "$work/s1.err"
}
before=$(connects)
say "stages without a place are left out and reported"
join extra "role: stage, rank: '2'"
wait_for 10 note_of pipeline "extra is left out of the ring: another agent has the same rank=2" || fail "$(ctl describe topology pipeline --scope test)"
note_of pipeline "s2 is left out of the ring" || fail "s2 has its place"
end extra
join lost "role: stage"
join odd "role: stage, rank: second"
wait_for 10 note_of pipeline "lost is left out of the ring: it has no label rank" || fail "lost is not reported"
wait_for 10 note_of pipeline "odd is left out of the ring: its label rank is no integer: second" || fail "odd is not reported"
await_wanted pipeline "s0-s1 s0-s3 s1-s2 s2-s3"
end lost
end odd
whole pipeline
say "a gap closes after it settled, and opens for the stage that is back"
end s3 KILL
await_wanted pipeline "s0-s1 s0-s2 s1-s2"
whole pipeline
join s3 "role: stage, rank: '3'"
await_wanted pipeline "s0-s1 s0-s3 s1-s2 s2-s3"
whole pipeline
[ "$(connects)" -eq "$before" ] || fail "the link of s0 and s1 was touched"
drop pipeline s0 s1 s2 s3

say "a full mesh"
apply cluster-mesh.yaml
for name in m0 m1 m2 m3; do
	join "$name" "role: expert"
done
whole exchange
await_wanted exchange "m0-m1 m0-m2 m0-m3 m1-m2 m1-m3 m2-m3"
end m1 KILL
await_wanted exchange "m0-m2 m0-m3 m2-m3"
join m1 "role: expert"
await_wanted exchange "m0-m1 m0-m2 m0-m3 m1-m2 m1-m3 m2-m3"
whole exchange
say "an expert that leaves"
end m3
[ "$status" -eq 0 ] || fail "m3 ended with $status"
await_wanted exchange "m0-m1 m0-m2 m1-m2"
join m3 "role: expert"
await_wanted exchange "m0-m1 m0-m2 m0-m3 m1-m2 m1-m3 m2-m3"
whole exchange

# An agent that comes and goes, beside links that stay.
say "a flapping agent makes no work for the links of others"
connects_of() {
	grep -c 'link m3/default is connected' "$work/m2.err"
}
connected=$(connects_of)
# An agent that no wish is about: its list is not written again.
join aside "role: none"
revision_of() {
	curl -sf "$url/v1/agents/$1/wanted?scope=test" | grep -o '"revision":[0-9]*,"known":true'
}
wait_for 10 revision_of aside || fail "aside has no list"
revision=$(revision_of aside)
for _ in 1 2 3; do
	end m1 KILL
	await_wanted exchange "m0-m2 m0-m3 m2-m3"
	join m1 "role: expert"
	await_wanted exchange "m0-m1 m0-m2 m0-m3 m1-m2 m1-m3 m2-m3"
done
whole exchange
[ "$(connects_of)" -eq "$connected" ] || fail "the link of m2 and m3 was touched"
[ "$(revision_of aside)" = "$revision" ] || fail "the list of an agent without links was written"
drop exchange m0 m1 m2 m3 aside
