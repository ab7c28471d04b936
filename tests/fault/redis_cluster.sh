#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Redis Cluster of three primaries, and a replica of the one that has nanoctrl's keys. Their slot moves to another
# primary and back under beats; the owner is killed, comes back as the replica, and takes its place again when asked to:
# nobody is given up, nobody has to register again, no link is touched, and who follows the events misses none.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/pair.sh"

command -v redis-server >/dev/null || skip "redis-server is not installed"
# Longer than a failover takes on a busy machine.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)
slot=

rc() { # NAME WORD...
	redis-cli -p "${port_of[$1]}" "${@:2}"
}

# start_node NAME: at the ports that it has, with what it knows. The kernel's ports leave no room for the 10000 more that
# the bus would have by default.
start_node() {
	mkdir -p "$work/$1"
	spawn "$1" redis-server --port "${port_of[$1]}" --bind 127.0.0.1 --dir "$work/$1" --save '' --appendonly no \
		--cluster-enabled yes --cluster-port "${port_of[$1-bus]}" --cluster-node-timeout 3000 \
		--repl-diskless-sync-delay 0
	wait_for 10 rc "$1" ping || fail "$1 does not answer"
}

id_of() {
	rc "$1" cluster myid
}

serves() { # NAME: nanoctrl is there, with all of its loops
	curl -sf "$url/readyz" && grep 'nanoctrl: .* serves$' "$work/nanoctrl.err" | tail -n 1 | grep -q ":${port_of[$1]} serves"
}

untouched() {
	wait_for 10 pair_is_there || fail "not registered: $(links)"
	pair_is_untouched
	[ "$(generations)" = "$registered" ] || fail "somebody had to register again"
	nobody_was_given_up
}

# due NODE AGENT: when its lease ends, as that node has it.
due() {
	rc "$1" zscore '{nanoctrl}:{test}:nanoctrl:due' "$2"
}

errors_of() { # NAME WORD: how often it said that
	rc "$1" info errorstats | sed -n "s/^errorstat_$2:count=\([0-9]*\).*/\1/p"
}

said_more() { # NAME WORD THAN
	local n

	n=$(errors_of "$1" "$2")
	[ "${n:-0}" -gt "${3:-0}" ]
}

# move_slot FROM TO: in the middle of it a question is asked, which has to wait. The keys go within one command.
move_slot() {
	local asked keys

	asked=$(errors_of "$1" ASK)
	rc "$2" cluster setslot "$slot" importing "$(id_of "$1")" >/dev/null
	rc "$1" cluster setslot "$slot" migrating "$(id_of "$2")" >/dev/null
	curl -s -o "$work/answer" -w '%{http_code} %{time_total}' "$url/v1/agents/node-a?scope=test" >"$work/answered" &
	pids[asking]=$!
	wait_for 10 said_more "$1" ASK "$asked" || fail "the node that the slot leaves was not asked"
	while mapfile -t keys < <(rc "$1" cluster getkeysinslot "$slot" 1000) && [ "${#keys[@]}" -gt 0 ] && [ -n "${keys[0]}" ]; do
		[ "$(rc "$1" migrate 127.0.0.1 "${port_of[$2]}" '' 0 5000 keys "${keys[@]}")" = OK ] || fail "the keys do not move"
	done
	rc "$2" cluster setslot "$slot" node "$(id_of "$2")" >/dev/null
	rc "$1" cluster setslot "$slot" node "$(id_of "$2")" >/dev/null
	reap asking
	# It waits for two seconds, which a busy machine may be longer about.
	case $(cat "$work/answered") in
	"200 "*) grep -q '"name":"node-a"' "$work/answer" || fail "another answer: $(cat "$work/answer")" ;;
	"503 "[01].*) fail "it was not waited: $(cat "$work/answered" "$work/answer")" ;;
	"503 "*) grep -q '"outcome":"not_executed"' "$work/answer" || fail "$(cat "$work/answer")" ;;
	*) fail "answered $(cat "$work/answered" "$work/answer")" ;;
	esac
}

saw() { # WHAT AGENT: the one who follows the events
	grep -q "\"$1\".*\"$2\"" "$work/follower.out"
}

for name in one two three copy; do
	take_port "$name"
	take_port "$name-bus"
	start_node "$name"
done
slot=$(rc one cluster keyslot '{nanoctrl}:x')
rc one cluster addslotsrange 0 5000 >/dev/null
rc two cluster addslotsrange 5001 10000 >/dev/null
rc three cluster addslotsrange 10001 16383 >/dev/null
[ "$slot" -gt 10000 ] || fail "the slot is $slot"
epoch=0
for name in one two three; do
	rc "$name" cluster set-config-epoch $((++epoch)) >/dev/null
done
for name in two three copy; do
	rc one cluster meet 127.0.0.1 "${port_of[$name]}" "${port_of[$name-bus]}" >/dev/null
done
all_met() {
	local name

	for name in one two three copy; do
		rc "$name" cluster info | tr -d '\r' | grep -qx cluster_state:ok || return 1
		rc "$name" cluster info | tr -d '\r' | grep -qx cluster_known_nodes:4 || return 1
	done
}
wait_for 20 all_met || fail "no cluster: $(rc one cluster info)"
rc copy cluster replicate "$(id_of three)" >/dev/null
copy_is_there() {
	rc three info replication | grep -q 'state=online'
}
wait_for 20 copy_is_there || fail "no replica: $(rc three info replication)"

hold_port
# The first one is nobody, and the others do not have the slot.
given="redis+cluster://127.0.0.1:1,127.0.0.1:${port_of[one]},127.0.0.1:${port_of[two]}"
spawn nanoctrl "$bin/nanoctrl" server --port "$port" --runtime-dir "$work/nanoctrl" --redis-url "$given" "${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
url=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")
wait_for 15 serves three || fail "it is not ready: $(cat "$work/nanoctrl.err")"

write_pair
write_agent node-c
start_pair
registered=$(generations)

say "everything is in one slot, and others find nothing of theirs"
for name in one two; do
	[ "$(rc "$name" dbsize)" = 0 ] || fail "$name has $(rc "$name" keys '*')"
done
[ "$(rc three cluster countkeysinslot "$slot")" = "$(rc three dbsize)" ] || fail "other slots have keys: $(rc three keys '*')"
[ "$(curl -s -o /dev/null -w '%{http_code}' -X POST "$url/list_entities" -H 'Content-Type: application/json' -d '{}')" = 501 ] ||
	fail "the routes of another control plane are there"
seen() {
	"$bin/nanoctrl" obs peers --redis-url "$given" --scope test >"$work/seen" && grep -q node-a "$work/seen" &&
		grep -q node-b "$work/seen"
}
wait_for 10 seen || fail "not seen in Redis: $(cat "$work/seen")"
"$bin/nanoctrl" gc --dry-run --redis-url "$given" 2>"$work/gc" || fail "gc: $(cat "$work/gc")"

spawn follower curl -sN "$url/v1/events?scope=test"

say "the slot moves to another primary, and back"
move_slot three two
wait_for 15 serves two || fail "nanoctrl did not follow"
grep -q 'says MOVED' "$work/nanoctrl.err" || fail "nobody was sent on"
beats_go_on two
untouched
move_slot two three
wait_for 15 serves three || fail "nanoctrl did not come back"
beats_go_on three
untouched

say "the owner is killed"
# What was acknowledged so far, the replica has.
[ "$(rc three wait 1 10000)" = 1 ] || fail "the replica does not keep up"
end three KILL
wait_for 20 serves copy || fail "nanoctrl did not follow: $(rc one cluster nodes)"
beats_go_on copy
untouched

say "events go on"
start_agent node-c
wait_ready node-c
wait_for 10 saw registered node-c || fail "nobody was told: $(cat "$work/follower.out")"
end node-c TERM
wait_for 10 saw left node-c || fail "nobody was told: $(cat "$work/follower.out")"

say "it comes back as a replica, and takes over when asked to"
start_node three
wait_for 20 sh -c "redis-cli -p ${port_of[three]} role | grep -qx slave" || fail "it is $(rc three role)"
wait_for 20 sh -c "redis-cli -p ${port_of[three]} info replication | grep -q master_link_status:up" || fail "it has no copy"
untouched
took_over() {
	rc three cluster failover >/dev/null
	rc three role | grep -qx master
}
wait_for 20 took_over || fail "it does not take over"
wait_for 15 serves three || fail "nanoctrl did not follow"
beats_go_on three
untouched

say "without a majority there is no answer, and then there is again"
for name in one two; do
	kill -STOP "${pids[$name]}"
done
is_refused() {
	[ "$(curl -s -m 10 -o /dev/null -w '%{http_code}' "$url/v1/agents/node-a?scope=test")" = 503 ]
}
wait_for 15 is_refused || fail "it is still answered"
for name in one two; do
	kill -CONT "${pids[$name]}"
done
wait_for 20 pair_is_there || fail "not there again: $(links)"
untouched

a_dead_agent_is_given_up
