#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The clock of Redis jumps an hour ahead, and back: no healthy agent is given up, and a dead one still is.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

# Nobody is to lose a lease because the machine stood still for a moment.
lease=(--set lease.ttl=8s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

faketime=$(find /usr/lib -name libfaketimeMT.so.1 -print -quit)
[ -n "$faketime" ] || skip "faketime is not installed"
# libfaketime asks malloc for memory when jemalloc, inside malloc, asks it for the time: glibc's malloc does not.
libc=$(ldd "$(command -v redis-server)" | sed -n 's/.*libc\.so[^ ]* => \([^ ]*\).*/\1/p')

# set_clock OFFSET: of Redis' wall clock, not of its monotonic one. The file is never seen half written.
set_clock() {
	echo "$1" >"$work/clock.new"
	mv "$work/clock.new" "$work/clock"
}

# libfaketime's shared memory and its semaphore, which nobody removes when Redis is killed.
remove_shared() {
	rm -f "/dev/shm/faketime_shm_$1" "/dev/shm/sem.faketime_sem_$1"
}
finish() {
	local redis=${pids[redis]:-none}

	cleanup
	remove_shared "$redis"
}
trap finish EXIT

# Once Redis has them, their names are not needed: so nothing is left, however this test ends.
start_redis() {
	spawn redis env LD_PRELOAD="$faketime:$libc" FAKETIME_TIMESTAMP_FILE="$work/clock" FAKETIME_NO_CACHE=1 \
		FAKETIME_DONT_FAKE_MONOTONIC=1 \
		redis-server --port 0 --unixsocket "$work/redis.sock" --unixsocketperm 600 --dir "$work" --save ''
	wait_for 10 redis-cli -s "$work/redis.sock" ping || fail "Redis does not answer"
	remove_shared "${pids[redis]}"
}

# How far Redis' clock is ahead of ours.
clock_offset() {
	local there
	there=$(redis-cli -s "$work/redis.sock" time | head -1)
	echo $((there - $(date +%s)))
}

n_jumps() {
	grep -c 'the clock of Redis jumped' "$work/nanoctrl.err" || true
}

saw_jumps() {
	[ "$(n_jumps)" -ge "$1" ]
}

# jump OFFSET N DEAD: the N-th jump is noticed, and for longer than a lease after it nothing happens to anybody who lives.
jump() {
	say "the clock of Redis is set to $1 s"
	set_clock "$1"
	wait_for 5 saw_jumps "$2" || fail "nanoctrl did not notice"
	spend 10
	[ "$(generations)" = "$before" ] || fail "somebody had to register again"
	[ "$(server_metric nanoctrl_leases_expired_total)" -le "$3" ] || fail "a lease was ended"
	[ "$(metric node-a slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link was touched"
}

write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-c
set_clock +0
start_control
start_agent node-a
start_agent node-b
start_agent node-c
wait_ready node-a node-b node-c
wait_link 10 node-a node-b default connected
before=$(generations)
# For a whole lease after its start nanoctrl gives nobody up.
spend 9

jump +3600 1 0
[ "$(clock_offset)" -gt 3000 ] || fail "the clock of Redis did not jump: this test tests nothing"
say "an agent dies whose lease is of the clock that is ahead"
end node-c KILL
jump +0 2 1
wait_for 15 agent_is_gone node-c || fail "its lease is still there"

say "an agent dies"
end node-b KILL
wait_for 15 agent_is_gone node-b || fail "its lease is still there"
agent_is_there node-a || fail "node-a is gone, too"
