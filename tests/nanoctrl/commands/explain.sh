#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl explain: cli_explain.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

declare -A lease=()
patient=(--stale-ms 3600000) # on a busy machine minutes pass

begin() {
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
}

# put PATH BODY [LEASE]
put() {
	curl -sSf -m 60 -X PUT "$url/v1/agents/$1" -H 'Content-Type: application/json' ${3:+-H "Slime-Lease: $3"} -d "$2"
}

register() {
	lease[$1]=$(put "$1?order=1" '{"incarnation":"one","address":"10.0.0.1",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
		sed 's/.*"lease":"\([^"]*\)".*/\1/')
}

# report AGENT PEER MEMBERS: of the profile default.
revision=0
report() {
	revision=$((revision + 1))
	put "$1/links/$2/default" "{\"revision\":$revision,$3}" "${lease[$1]}" >/dev/null
}

# snapshot AGENT CONNECTIONS
snapshot() {
	put "$1/snapshot" "{\"interval_ms\":1000,\"host\":\"h1\",\"pid\":11,\"uptime_ms\":61000,\"summary\":{},\"connections\":[$2]}" \
		"${lease[$1]}" >/dev/null
}

# explained COMMAND...: what it prints, without its times, is in $dir/said.
explained() {
	nc explain "$@" >"$dir/out" 2>&1 || die "explain $*: $?"
	sed -E 's/\b[0-9]+(ms|s|m)\b/TIME/g; s/^  lease +[0-9.]+ s/  lease TIME/; s/ +/ /g; s/^ //' "$dir/out" >"$dir/said"
}

case_a_link_is_explained_from_both_ends() {
	begin
	register node-a
	register node-b
	report node-a node-b '"state":"connected","transport":"tcp","attributes":{"transports":"shm,rdma,tcp","order":"peer",
		"passed_over":"rdma: no device","connects":"2","last_error":"connection reset by peer; it was killed"}'
	report node-b node-a '"state":"connected","transport":"tcp","attributes":{"transports":"shm,tcp","order":"own",
		"passed_over":"shm: nothing listens there","connects":"1"}'
	snapshot node-a '{"peer":"node-b","profile":"default","state":"connected","local_nic":"tcp","remote_nic":"10.0.0.2:7",
		"completed_bytes_total":2048,"pending_ops":1,"error_total":3,"ewma_bandwidth_bps":1500000000.0}'
	explained node-a "${patient[@]}"
	like "$dir/said" "node-a is alive" "scope default" \
		"lease TIME left; it has no session: that broke, or it beats without one" \
		"registered TIME ago as generation [0-9]+, incarnation one, address 10.0.0.1" \
		"process 11 on h1, up TIME; its last snapshot is TIME old" "links 1, of which 1 is connected" "" \
		"link to node-b, profile default: connected over tcp for TIME" "allowed shm, rdma, tcp; node-b chose, in its own order" \
		"passed over rdma: no device" "node-b says: shm: nothing listens there" "came up 2 times" \
		"last error connection reset by peer" "it was killed" "path tcp to 10.0.0.2:7" \
		"moved 2.0KB, of late 0.1875GB/s; 1 pending, 3 errors" "other end node-b says the same; it allows shm, tcp"
	explained node-b node-a
	grep -qx "allowed shm, tcp, in this order" "$dir/said" || die "$(cat "$dir/said")"
	expect 0 stopped nc stop
}

case_ends_that_differ_are_both_told() {
	begin
	register node-a
	register node-b
	report node-a node-b '"state":"connected","transport":"shm"'
	explained node-a
	grep -qx "other end node-b is alive, and reports no link to node-a" "$dir/said" || die "$(cat "$dir/said")"
	report node-b node-a '"state":"broken","cause":"shm: no such socket; tcp: refused","attributes":{"transports":"shm,tcp","failures":"3"}'
	explained node-a node-b
	grep -qx "other end node-b says broken for TIME, 3 failures in a row; it allows shm, tcp" "$dir/said" || die "$(cat "$dir/said")"
	grep -qx "tcp: refused" "$dir/said" || die "$(cat "$dir/said")"
	explained node-b
	grep -qx "cause shm: no such socket" "$dir/said" || die "$(cat "$dir/said")"
	grep -qx "other end node-a says connected over shm for TIME" "$dir/said" || die "$(cat "$dir/said")"
	# As long as it may be, and not longer.
	local long
	long=$(printf 'no%.0s ' {1..340})xxx
	report node-b node-a "\"state\":\"broken\",\"cause\":\"$long\""
	explained node-b
	grep -qx "cause $long" "$dir/said" || die "$(cat "$dir/said")"
	! report node-b node-a "\"state\":\"broken\",\"cause\":\"${long}x\"" 2>/dev/null || die "a cause of 1024 bytes is taken"
	# A peer that is not there, one that nobody is yet, and a link that only the peer tells of.
	report node-a gone '"state":"connecting","cause":"gone is not registered"'
	report node-a role=decode '"state":"connecting","cause":"no agent matches"'
	explained node-a gone
	grep -qx "other end gone is not registered: .*" "$dir/said" || die "$(cat "$dir/said")"
	explained node-a role=decode
	! grep -q "other end" "$dir/said" || die "$(cat "$dir/said")"
	explained gone
	like "$dir/said" "gone is not registered: .*" "scope default" "links none that it reports" "" \
		"link to node-a, profile default: not reported by this agent" "other end node-a says connecting for TIME" "gone is not registered" \
		"node-a has no session: it may be dead, and its lease not ended yet"
	expect 0 stopped nc stop
}

case_memory_that_is_out_of_reach_is_explained() {
	begin
	register node-a
	register node-b
	report node-a node-b '"state":"connected","transport":"shm","attributes":{"transports":"shm","no_foreign_memory":"foreign_memory is off at the peer"}'
	explained node-a node-b
	grep -qx "memory only that of slime_mem_alloc is in reach: foreign_memory is off at the peer" "$dir/said" || die "$(cat "$dir/said")"
	expect 0 stopped nc stop
}

case_each_rail_is_explained() {
	local rail='"local_nic":"rxe0:1","remote_nic":"rxe1:1","why":"paired by position; GID index 1, RoCE v2"'

	begin
	register node-a
	register node-b
	report node-a node-b '"state":"connected","transport":"rdma"'
	report node-b node-a '"state":"connected","transport":"rdma"'
	snapshot node-a "{\"peer\":\"node-b\",\"rails\":[{\"state\":\"up\",\"share\":125,\"completed_bytes_total\":2048,\"qps\":4,\"bandwidth\":100000000000,$rail},7,
		{\"state\":\"down\",\"share\":0,\"failures_total\":3,\"error\":\"its port went down\",$rail}]}"
	snapshot node-b "{\"peer\":\"node-a\",\"rails\":[{\"state\":\"up\",$rail},{\"state\":\"rising\",\"error\":\"timed out\",$rail}]}"
	explained node-a node-b
	grep -A10 -x "link to .*" "$dir/said" >"$dir/rails"
	like "$dir/rails" "link to node-b, profile default: connected over rdma for TIME" \
		"rail 0 rxe0:1 to rxe1:1: up; 12.5 % of a large batch, 2.0KB moved, never failed" "4 queue pairs, link speed 100.0 Gbit/s" "paired by position" "GID index 1, RoCE v2" \
		"rail 1 rxe0:1 to rxe1:1: down; 0.0 % of a large batch, 0B moved, failed 3 times, last with: its port went down" \
		"paired by position" "GID index 1, RoCE v2" "node-b says of it: rising, failed last with: timed out" \
		"other end node-b says the same"
	expect 0 stopped nc stop
}

case_whom_nobody_knows_is_an_error() {
	expect 2 "expected AGENT" nc explain
	expect 2 "unexpected argument" nc explain a b c
	expect 1 "no server runs" nc explain node-a
	begin
	register node-a
	register node-b
	report node-a node-b '"state":"connecting"'
	expect 1 'no agent "nod-a" is known in scope default; --scope names another scope' nc explain nod-a
	expect 1 'no agent "node-a" is known in scope s' nc explain node-a --scope s
	expect 1 'no agent "a/?b" is known in scope default' nc explain $'a/\033b'
	expect 1 '"node-a" has no link to "nodeb", and that none to it; did you mean "node-b"?' nc explain node-a nodeb
	snapshot node-a ""
	expect 1 'no agent "nod-a" is known in scope default; --scope names another scope; did you mean "node-a"?' nc explain nod-a
	expect 0 stopped nc stop
}

case_an_explanation_is_json() {
	begin
	register node-a
	report node-a node-b '"state":"connected","transport":"tcp","attributes":{"transports":"shm,\"x\"","order":"own","passed_over":"shm: a\u001bb",
		"connects":"2","failures":"x","mine":"?"}'
	snapshot node-a '{"peer":"node-b","state":"connected","completed_bytes_total":1,"conn_id":"c","rails":[{"state":"up"}]}'
	nc explain node-a --json >"$dir/out" || die "$?"
	python3 - "$dir/out" <<'END' || die "$(cat "$dir/out")"
import json, sys
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)
x = json.load(open(sys.argv[1]), object_pairs_hook=once)
assert x["agent"]["name"] == "node-a" and x["agent"]["state"] == "alive" and x["agent"]["incarnation"] == "one", x
assert x["agent"]["lease_left_ms"] > 0 and not x["agent"]["session"] and x["agent"]["pid"] == 11, x
link, = x["links"]
assert link["peer"] == "node-b" and link["peer_state"] == "gone" and link["other"] is None and not link["agree"], x
own = link["own"]
assert own["state"] == "connected" and own["transports"] == ["shm", '"x"'] and own["order"] == "own", x
assert own["passed_over"] == "shm: a\u001bb" and own["connects"] == 2 and own["failures"] == 0, x
assert own["rails"] == [{"state": "up"}] and own["completed_bytes_total"] == 1, x
END
	# What an agent says drives no terminal.
	expect 0 "shm: a?b" nc explain node-a
	expect 0 stopped nc stop
}

# Without a server, of its agents and others': what their snapshots have.
case_snapshots_alone_explain_what_they_can() {
	local there

	give_redis
	there=(--redis-url "unix://$dir/given.sock" "${patient[@]}")
	redis-cli -s "$dir/given.sock" mset obs:peer:theirs '{"peer_id":"theirs","host":"h2","pid":22,"reported_at_ms":1,
		"connections":[{"peer":"x","local_nic":"mlx5_0","state":"connected"}]}' \
		obs:peer:ours '{"peer_id":"ours","interval_ms":1000,"reported_at_ms":1,"status":"stopped"}' \
		obs:peer:odd '{"peer_id":"odd","reported_at_ms":'"$(date +%s%3N)"',"connections":[{"peer":"y","state":"unreported"}]}' >/dev/null
	expect 0 "theirs is stale: it has not reported lately" nc explain theirs "${there[@]}"
	expect 0 "link to x, profile default: stale" nc explain theirs x "${there[@]}"
	expect 0 "ours is gone: it left in order" nc explain ours "${there[@]}"
	expect 0 "x is unknown: it says nothing itself" nc explain x "${there[@]}"
	# What we say ourselves of an end that nobody reports is a state like any other when another one says it.
	expect 0 "other end    odd says unreported" nc explain y "${there[@]}"
	expect 1 "is known in scope" nc explain node-a "${there[@]}"
	end_given
}

run_cases "$@"
