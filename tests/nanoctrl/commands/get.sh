#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl get and describe: get.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

# register SCOPE NAME ROLE: its lease, in $lease.
register() {
	lease=$(curl -sf -m 60 -X PUT "$url/v1/agents/$2?order=1&scope=$1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011","address":"10.0.0.1",
		"labels":{"role":"'"$3"'"},"services":[{"name":"echo"}]}' | sed 's/.*"lease":"\([^"]*\)".*/\1/')
}

# put PATH BODY: of the agent that registered last.
put() {
	curl -sf -m 60 -X PUT "$url/v1/agents/$1?scope=default" -H "Slime-Lease: $lease" -H 'Content-Type: application/json' -d "$2" >/dev/null
}

start() {
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	register default node-a prefill
	put node-a/regions/kv '{"revision":1,"size":1048576,"access":["read","write"],"allow":["role=decode"],"descriptor":"AQAA"}'
	put node-a/links/node-b/kv '{"revision":1,"state":"broken","cause":"no route","attributes":{"source":"topology serving"}}'
	register default node-b decode
	register other node-c decode
}

# shows LINE COMMAND...: one line of the table is as this pattern.
shows() {
	"${@:2}" >"$dir/out" 2>&1 || die "${*:2}: status $?"
	grep -qE -- "$1" "$dir/out" || die "${*:2}: no line as $1: $(cat "$dir/out")"
}

is_listed() {
	nc get links | grep -qE -- "$1"
}

# n_rows N COMMAND...: the JSON that it prints has so many objects.
n_rows() {
	"${@:2}" -o json >"$dir/out" 2>&1 || die "${*:2}: status $?"
	[ "$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)))' <"$dir/out")" = "$1" ] || die "${*:2}: not $1: $(cat "$dir/out")"
}

case_each_kind_is_listed() {
	expect 1 "no server runs" nc get agents
	start
	shows '^node-a +lease +10.0.0.1 +role=prefill +echo ' nc get agents
	shows '^node-a +kv +1.0 ?Mi?B +read,write +1 +role=decode' nc get regions
	shows '^echo +node-b +10.0.0.1' nc get services
	shows '^node-a +node-b +kv +broken +- +[0-9]+m?s +topology serving +no route' nc get links
	shows '^ *[0-9]+m?s +region +node-a +kv' nc get events
	shows '^default +2 +0' nc get scopes
	shows '^NAME +STATE' nc get topologies
	shows '^ *AGE .* CURSOR' nc get events -o wide
	shows '^- name: node-a$' nc get agents -o yaml
	shows '^  address: "10.0.0.1"$' nc get agents -o yaml
	n_rows 2 nc get agents
	# By the name of one, too.
	n_rows 2 nc get agent
	expect 0 stopped nc stop
}

# What a topology wants, beside what agents say of it.
case_links_that_are_wanted_have_a_state() {
	start
	register default node-d decode
	cat >"$dir/t.yaml" <<-END
		version: 1
		name: t
		agents:
		  - { select: "role=decode", count: 3 }
		links:
		  - { pairs: [[node-a, node-b], [node-b, node-d], [node-a, gone], [gone, lost]], profile: kv }
	END
	expect 0 "topology t" nc apply -f "$dir/t.yaml"
	wait_for is_listed '^node-b +node-d +kv +wanted +- +[0-9.]+m?s +topology t +node-b has not reported it yet'
	shows '^node-a +node-b +kv +broken ' nc get links
	shows '^node-a +gone +kv +absent +- +[0-9.]+m?s +topology t +gone is not registered' nc get links
	shows '^lost +gone +kv +absent +- +[0-9.]+m?s +topology t +lost is not registered' nc get links
	n_rows 3 nc get links --state wanted
	expect 0 '"state":"wanted"' nc obs links --topology t --json
	put node-d/links/node-b/kv '{"revision":1,"state":"refused","age_ms":7205000,"cause":"rdma: this host has no RDMA device",
		"attributes":{"source":"topology t"}}'
	shows '^node-d +node-b +kv +refused +- +120m +topology t +rdma: this host has no RDMA device' nc get links
	n_rows 1 nc get links --state refused
	shows ' refused +.* 72[0-9]{2}.[0-9] s +rdma: this host has no RDMA device' nc obs links --topology t
	shows 'link to node-b, profile kv: refused for 120m' nc explain node-d node-b
	shows 'cause +rdma: this host has no RDMA device' nc explain node-d node-b
	shows 'node-d says refused for 120m' nc explain node-b node-d
	expect 1 'topology "t" is waiting: absent: role=decode: 2 of 3 are registered' nc obs links --topology t --wait 100ms
	expect 1 'nanoctrl explain gone lost' nc obs links --topology t --wait 100ms
	expect 1 'there is no topology "u"' nc obs links --topology u
	expect 1 'there is no topology "u"' nc obs links --topology u --wait 100ms
	shows 'link to node-d, profile kv: wanted for ' nc explain node-b node-d
	shows 'topology t is of revision [0-9]+, changed ' nc explain node-b node-d
	shows 'gone is not registered' nc explain gone lost
	expect 0 stopped nc stop
}

# Agents that a topology expects, with their labels and regions.
case_what_is_expected_is_compared() {
	start
	cat >"$dir/t.yaml" <<-END
		version: 1
		name: t
		agents:
		  - { select: "role=decode", count: 3 }
		  - { name: node-a, labels: { role: trainer }, regions: [ { name: kv, min_size: 64GiB }, { name: weights } ] }
		  - { name: node-b, labels: { role: decode } }
	END
	expect 0 "topology t" nc apply -f "$dir/t.yaml"
	wait_for is_waiting
	nc describe topology t >"$dir/described" || die "$?"
	for line in 'agents: "role=decode"' 'registered: 1' '"2 of 3 are absent"' '"node-a has label role=prefill, and trainer is expected"' \
		'"region kv of node-a has 1.0MB, and 64GiB is expected"' '"node-a offers no region weights"'; do
		grep -qF -- "$line" "$dir/described" || die "no $line in $(cat "$dir/described")"
	done
	grep -q 'node-b has' "$dir/described" && die "node-b has what is expected"
	sed -i 's/64GiB/64 GB/' "$dir/t.yaml"
	expect 1 "t.yaml:5:71: agents[1].regions[0].min_size is not a size such as 64GiB" nc apply -f "$dir/t.yaml"
	expect 0 stopped nc stop
}

# The labels are among what an expansion finds.
is_waiting() {
	nc get topologies -o json | grep -q 'node-a has label role=prefill, and trainer is expected'
}

case_rows_are_filtered() {
	start
	n_rows 3 nc get agents -A
	n_rows 2 nc get agents -A -l role=decode
	n_rows 1 nc get agents --scope other
	shows '^other +node-c ' nc get agents -A
	nc get events -A -o json | grep -q '"scope":"other"' || die "events of all scopes do not say which"
	n_rows 1 nc get regions -l role=prefill
	n_rows 0 nc get regions -l role=decode
	n_rows 1 nc get links --agent node-b
	n_rows 0 nc get links --agent node-c
	n_rows 1 nc get links --state broken
	n_rows 0 nc get links --state connected
	n_rows 2 nc get agents --state lease
	n_rows 1 nc get events --agent node-b
	expect 0 stopped nc stop
}

case_slips_are_refused() {
	start
	expect 2 "expected one of topologies|agents|links|regions|services|events|scopes, got nodes" nc get nodes
	expect 2 "-l: events have no labels" nc get events -l a=b
	expect 2 "--agent: scopes are of no agent" nc get scopes --agent a
	expect 2 "--state: regions have no state" nc get regions --state up
	expect 1 "selector" nc get agents -l "role==a"
	expect 2 "expected" nc get agents -o csv
	expect 2 "expected one of topology|agent|link|region|service|scope, got event" nc describe event 1
	expect 1 'there is no agent "nod-a" in scope default; did you mean "node-a"?' nc describe agent nod-a
	expect 0 stopped nc stop
}

case_an_object_is_described_with_what_belongs_to_it() {
	start
	nc describe agent node-a >"$dir/out" || die "$?"
	for line in '^agents:' '^  - name: node-a' '^regions:' '^    name: kv' '^links:' '^    peer: node-b' '^events:' '^  - type: registered'; do
		grep -qE -- "$line" "$dir/out" || die "no $line in $(cat "$dir/out")"
	done
	grep -q 'name: node-b' "$dir/out" && die "it has more than node-a"
	shows '"agent":"node-a","name":"kv"' nc describe region node-a/kv -o json
	shows 'profile: kv' nc describe link node-a/node-b
	shows 'profile: kv' nc describe link node-a/node-b/kv
	expect 1 "there is no link" nc describe link node-a/node-b/k
	expect 0 stopped nc stop
}

case_what_changes_is_watched() {
	start
	nc get agents --watch --every 100ms -o json >"$dir/seen" 2>&1 &
	watcher=$!
	wait_for grep -q '"name":"node-b"' "$dir/seen"
	register default node-d decode
	wait_for grep -q '"name":"node-d"' "$dir/seen"
	curl -sf -m 60 -X DELETE "$url/v1/agents/node-d?scope=default" -H "Slime-Lease: $lease" >/dev/null
	wait_for grep -qx '{"gone":"node-d"}' "$dir/seen"
	# Each once: an age that grows is no change.
	[ "$(wc -l <"$dir/seen")" -eq 4 ] || die "$(cat "$dir/seen")"
	kill "$watcher"
	wait "$watcher" || true
	watcher=
	expect 0 stopped nc stop
}

run_cases "$@"
