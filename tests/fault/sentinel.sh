#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A replicated Redis whose primary is killed under load: three sentinels make another one the primary, nanoctrl asks them
# who it is, and the agents are registered again with nobody given up; what was not acknowledged says what became of it.
# The old primary comes back as a replica, and loses the place to nobody. A failover that somebody asks for is followed as
# well. What a primary acknowledged and nobody has a copy of its agents publish again.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/pair.sh"

command -v redis-server >/dev/null || skip "redis-server is not installed"
# Longer than a failover takes on a busy machine.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

# start_copy NAME [PRIMARY]: one of the copies; a primary takes no writes that nobody has a copy of.
start_copy() {
	mkdir -p "$work/$1"
	spawn "$1" redis-server --port "${port_of[$1]}" --bind 127.0.0.1 --dir "$work/$1" --save '' --appendonly yes \
		--appendfsync always --min-replicas-to-write 1 --min-replicas-max-lag 3 --repl-diskless-sync-delay 0 \
		${2:+--replicaof 127.0.0.1 "${port_of[$2]}"}
	wait_for 10 redis-cli -p "${port_of[$1]}" ping || fail "$1 does not answer"
}

start_sentinel() {
	take_port "$1"
	printf '%s\n' "port ${port_of[$1]}" 'bind 127.0.0.1' "dir $work" \
		"sentinel monitor main 127.0.0.1 ${port_of[one]} 2" 'sentinel down-after-milliseconds main 2000' \
		'sentinel failover-timeout main 10000' >"$work/$1.conf"
	spawn "$1" redis-server "$work/$1.conf" --sentinel
	wait_for 10 redis-cli -p "${port_of[$1]}" ping || fail "$1 does not answer"
}

primary() {
	redis-cli -p "${port_of[watch-a]}" sentinel get-master-addr-by-name main | tail -n 1
}

primary_is_not() {
	[ "$(primary)" != "$1" ]
}

knows() { # SENTINEL WORD VALUE: of what it knows of the primary
	[ "$(redis-cli -p "${port_of[$1]}" sentinel master main | grep -x -A 1 "$2" | tail -n 1)" = "$3" ]
}

role_is() {
	redis-cli -p "${port_of[$1]}" role | head -n 1 | grep -qx "$2"
}

untouched() {
	pair_is_untouched
	nobody_was_given_up
}

for name in one two three; do
	take_port "$name"
done
start_copy one
start_copy two one
start_copy three one
for name in watch-a watch-b watch-c; do
	start_sentinel "$name"
done
for name in watch-a watch-b watch-c; do
	wait_for 20 knows "$name" num-slaves 2 || fail "$name does not know the copies"
	wait_for 20 knows "$name" num-other-sentinels 2 || fail "$name does not know the other sentinels"
done

hold_port
# The first one is nobody: it is passed over.
spawn nanoctrl "$bin/nanoctrl" server --port "$port" --runtime-dir "$work/nanoctrl" --redis-url \
	"redis+sentinel://127.0.0.1:1,127.0.0.1:${port_of[watch-a]},127.0.0.1:${port_of[watch-b]},127.0.0.1:${port_of[watch-c]}/main" \
	"${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
url=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")

write_pair
start_pair

say "the primary is killed, under load"
spawn ledger python3 "$(dirname "${BASH_SOURCE[0]}")/ledger.py" "$url"
# regions_of AGENT SCOPE: how many are known.
regions_of() {
	curl -sf "$url/v1/agents/$1/regions?scope=$2" | grep -o '"name":' | wc -l
}
writes() {
	[ "$(regions_of writer load)" -gt 100 ]
}
wait_for 20 writes || fail "the ledger writes nothing: $(cat "$work/ledger.err")"
end one KILL
wait_for 15 primary_is_not "${port_of[one]}" || fail "no failover: $(tail -n 20 "$work/watch-a.out")"
wait_for 20 curl -sf "$url/readyz" || fail "nanoctrl did not follow"
wait_for 10 pair_is_there || fail "not registered: $(links)"
untouched
before=$(regions_of writer load)
goes_on() {
	[ "$(regions_of writer load)" -gt $((before + 50)) ]
}
wait_for 10 goes_on || fail "the ledger does not go on: $(cat "$work/ledger.err")"
end ledger
[ "$status" -eq 0 ] || fail "the ledger: $(cat "$work/ledger.out" "$work/ledger.err")"
grep -q 'not_executed=[1-9]' "$work/ledger.out" || fail "nothing was refused: $(cat "$work/ledger.out")"
now=$(primary)

say "it comes back, and is a replica"
start_copy one
wait_for 20 role_is one slave || fail "it is $(redis-cli -p "${port_of[one]}" role)"
[ "$(primary)" = "$now" ] || fail "another failover"
wait_for 10 pair_is_there || fail "not registered: $(links)"
untouched

say "a failover by hand"
ready_for_failover() {
	redis-cli -p "${port_of[watch-a]}" sentinel failover main | grep -qx OK
}
# A sentinel that finds no copy good enough gives up, and is asked again.
for ((n = 0; n < 3; n++)); do
	wait_for 20 ready_for_failover || fail "the sentinel refuses"
	! wait_for 20 primary_is_not "$now" || break
done
primary_is_not "$now" || fail "no failover: $(tail -n 20 "$work/watch-a.out")"
# It may have served before: what each loop said last counts.
follows() {
	curl -sf "$url/readyz" && pair_is_there &&
		grep 'nanoctrl: .* serves$' "$work/nanoctrl.err" | tail -n 1 | grep -q "127.0.0.1:$(primary) serves"
}
wait_for 20 follows || fail "nanoctrl did not follow"
untouched

say "what the primary acknowledged, and nobody has a copy of"
copies=()
for name in one two three; do
	if role_is "$name" master; then
		now=$name
	else
		copies+=("$name")
	fi
done
has_region() { # AGENT REGION
	curl -sf "$url/v1/agents/$1/regions/$2?scope=test" >/dev/null
}
# A primary that is set as ours takes a write without a copy for as long as a copy may lag; this one for longer.
redis-cli -p "${port_of[$now]}" config set min-replicas-to-write 0 >/dev/null
for name in "${copies[@]}"; do
	kill -STOP "${pids[$name]}"
done
redis-cli -p "${port_of[$now]}" client kill type replica >/dev/null
write_agent node-b 'metrics: { listen: "127.0.0.1:0" }' 'regions: [ { name: kv, size: 64KiB } ]'
kill -HUP "${pids[node-b]}"
write_agent node-c 'regions: [ { name: kv-1, size: 64KiB }, { name: kv-2, size: 64KiB } ]'
start_agent node-c
wait_ready node-c
all_published() {
	has_region node-b kv && has_region node-c kv-1 && has_region node-c kv-2
}
wait_for 10 all_published || fail "not published"
for name in "${copies[@]}"; do
	! grep -qs node-c "$work/$name"/appendonlydir/* || fail "$name has a copy of it"
done
grep -qs node-c "$work/$now"/appendonlydir/* || fail "the primary has not written it"
end "$now" KILL
for name in "${copies[@]}"; do
	kill -CONT "${pids[$name]}"
done
wait_for 20 primary_is_not "${port_of[$now]}" || fail "no failover: $(tail -n 20 "$work/watch-a.out")"
wait_for 20 follows || fail "nanoctrl did not follow"
# 10 s are promised.
wait_for 10 all_published || fail "what was lost is not published again: $(curl -s "$url/v1/regions?scope=test")"
wait_for 10 pair_is_there || fail "not registered: $(links)"
untouched

a_dead_agent_is_given_up
