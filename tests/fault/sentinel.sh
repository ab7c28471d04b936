#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A replicated Redis whose primary is killed: three sentinels make another one the primary, nanoctrl asks them who it is,
# and the agents are registered again with nobody given up. The old primary comes back as a replica, and loses the place
# to nobody. A failover that somebody asks for is followed as well.
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

say "the primary is killed"
end one KILL
wait_for 15 primary_is_not "${port_of[one]}" || fail "no failover: $(tail -n 20 "$work/watch-a.out")"
wait_for 20 curl -sf "$url/readyz" || fail "nanoctrl did not follow"
wait_for 10 pair_is_there || fail "not registered: $(links)"
untouched
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
wait_for 20 ready_for_failover || fail "the sentinel refuses"
wait_for 20 primary_is_not "$now" || fail "no failover"
# It may have served before: what each loop said last counts.
follows() {
	curl -sf "$url/readyz" && pair_is_there &&
		grep 'nanoctrl: .* serves$' "$work/nanoctrl.err" | tail -n 1 | grep -q "127.0.0.1:$(primary) serves"
}
wait_for 20 follows || fail "nanoctrl did not follow"
untouched

a_dead_agent_is_given_up
