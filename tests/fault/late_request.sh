#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of two nanoctrl one stands still while it holds a request. The client gives the request up, repeats it at the other one
# and goes on. When the first one continues, it executes the old request, which must not undo what was acknowledged since.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/beside.sh"

owner=0011223344556677889900112233445566778899001122334455667788990011
other_owner=9911223344556677889900112233445566778899001122334455667788990011

# ask REPLICA METHOD PATH [BODY]: the status in $answered, the body in $work/answer. The lease is $lease_of.
lease_of=
ask() {
	answered=$(curl -s -o "$work/answer" -w '%{http_code}' -X "$2" "${urls[$1]}/v1$3" \
		-H 'Content-Type: application/json' ${lease_of:+-H "Slime-Lease: $lease_of"} ${4:+-d "$4"}) || true
}

# expect STATUS REPLICA METHOD PATH [BODY]
expect() {
	ask "${@:2}"
	[ "$answered" = "$1" ] || fail "${*:3} was answered $answered: $(cat "$work/answer")"
}

# register NAME INCARNATION ORDER [OWNER]: at the replica that goes on; the lease is the one from now on.
registration() { # INCARNATION [OWNER]
	echo "{\"incarnation\":\"$1\",\"owner_key\":\"${2:-$owner}\"}"
}

register() {
	lease_of=
	expect 201 two PUT "/agents/$1?order=$3" "$(registration "$2" "${4:-}")"
	lease_of=$(sed 's/.*"lease":"\([^"]*\)".*/\1/' "$work/answer")
}

# hold METHOD PATH [BODY]: the first replica stands still before this request, for whose answer nobody waits.
hold() {
	kill -STOP "${pids[one]}"
	curl -s -o "$work/late" -w '%{http_code}' -X "$1" "${urls[one]}/v1$2" -H 'Content-Type: application/json' \
		${lease_of:+-H "Slime-Lease: $lease_of"} ${3:+-d "$3"} >"$work/late.status" &
	late=$!
}

# go_on: the first replica continues, and refuses what it was asked.
go_on() {
	kill -CONT "${pids[one]}"
	wait "$late" || fail "the late request has no answer"
	{ [ "$(cat "$work/late.status")" = 409 ] && grep -q '"code":"stale"' "$work/late"; } ||
		fail "the late request was answered $(cat "$work/late.status"): $(cat "$work/late")"
}

region() { # REVISION
	echo "{\"revision\":$1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJD\"}"
}

offer() { # CONNECTION_EPOCH
	echo "{\"connection_epoch\":$1,\"descriptor\":\"QUJD\"}"
}

case_a_late_withdrawal_does_not_remove_the_region_published_since() {
	local kv="/agents/a/regions/kv"

	register a one 1
	expect 201 two PUT "$kv" "$(region 1)"
	hold DELETE "$kv?revision=2"
	expect 200 two DELETE "$kv?revision=2"
	expect 201 two PUT "$kv" "$(region 3)"
	go_on
	expect 200 two GET "$kv"
}

case_a_late_withdrawal_does_not_remove_the_offer_posted_since() {
	local ab="/agents/c/exchange/b/default"

	register b one 1
	register c one 1
	expect 200 two PUT "$ab" "$(offer 1)"
	hold DELETE "$ab?connection_epoch=1"
	expect 200 two DELETE "$ab?connection_epoch=1"
	expect 200 two PUT "$ab" "$(offer 2)"
	go_on
	expect 200 two GET "$ab"
}

case_a_late_region_or_offer_does_not_come_back_after_its_withdrawal() {
	local kv="/agents/e/regions/kv" ab="/agents/e/exchange/d/default"

	register d one 1
	register e one 1
	hold PUT "$kv" "$(region 1)"
	expect 201 two PUT "$kv" "$(region 1)"
	expect 200 two DELETE "$kv?revision=2"
	go_on
	expect 404 two GET "$kv"

	hold PUT "$ab" "$(offer 1)"
	expect 200 two PUT "$ab" "$(offer 2)"
	expect 200 two DELETE "$ab?connection_epoch=2"
	go_on
	expect 404 two GET "$ab"
}

case_a_late_registration_does_not_hold_the_name_after_the_agent_left() {
	hold PUT "/agents/f?order=1" "$(registration one)"
	register f one 2
	expect 200 two DELETE /agents/f
	lease_of=
	go_on
	expect 404 two GET /agents/f
	register f two 1 "$other_owner"
}

case_a_late_registration_does_not_end_the_lease_given_since() {
	hold PUT "/agents/g?order=1" "$(registration one)"
	register g one 2
	go_on
	expect 200 two POST /agents/g/heartbeat
}

case_a_late_registration_of_a_process_that_died_does_not_take_over_from_the_next() {
	hold PUT "/agents/h?order=1" "$(registration died)"
	register h next 2
	go_on
	expect 200 two POST /agents/h/heartbeat
}

write_region() { # SIZE
	sed -i '/^regions:/d' "$work/agent.yaml"
	echo "regions: [ { name: kv, size: $1, access: [ read ] } ]" >>"$work/agent.yaml"
}

# What an agent does when the size of a region changes: it withdraws the region and publishes another one.
case_a_region_that_an_agent_changes_while_its_replica_stands_still_is_there() {
	start_agent_at agent one two
	wait_ready agent
	write_region 1MiB
	kill -HUP "${pids[agent]}"
	has_size() { # REPLICA SIZE
		curl -sf "${urls[$1]}/v1/agents/agent/regions/kv?scope=test" | grep -q "\"size\":$2,"
	}
	wait_for 10 has_size one 1048576 || fail "the region is not there"
	kill -STOP "${pids[one]}"
	write_region 2MiB
	kill -HUP "${pids[agent]}"
	wait_for 10 has_size two 2097152 || fail "the agent does not go on at the other replica"
	kill -CONT "${pids[one]}"
	# Its answer comes behind what it was asked before.
	expect 200 one GET "/agents/agent?scope=test"
	spend 0.5
	has_size two 2097152 || fail "the region is gone"
	grep -q "published again" "$work/agent.err" && fail "it was gone for a while"
	end agent
}

lease=(--set lease.ttl=60s --set lease.beat=1s --set server.drain_accept=0s)
start_redis
start_replica one
start_replica two
for name in $(declare -F | sed -n 's/^declare -f \(case_.*\)/\1/p'); do
	case "${1:-}" in "" | "$name") say "$name"; lease_of=; "$name" ;; esac
done
