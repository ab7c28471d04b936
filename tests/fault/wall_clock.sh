#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wall clocks of nanoctrl and of an agent jump, one an hour ahead and one back: leases, beats, sessions and links go by the
# monotonic clock, and notice nothing. Redis' own clock: clock.sh.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

# Nobody is to lose a lease because the machine stood still for a moment.
lease=(--set lease.ttl=6s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

shim=${SLIME_BUILD:?}/tests/libslime-test-wall-clock.so
# ASan's own functions come first.
asan=$(ldd "$bin/nanoctrl" | sed -n 's/.*libasan[^ ]* => \([^ ]*\).*/\1/p')

# set_clock NAME SECONDS: of those that are spawned with with_clock NAME, ahead of the others.
set_clock() {
	python3 -c '
import struct, sys
with open(sys.argv[1], "r+b") as f:
	f.write(struct.pack("=q", int(sys.argv[2])))' "$work/$1.clock" "$2"
}

# with_clock NAME: a prefix of a command, as words in $with.
with_clock() {
	truncate -s 8 "$work/$1.clock"
	with=(env "WALL_CLOCK=$work/$1.clock" "LD_PRELOAD=${asan:+$asan:}$shim")
}

# is_ahead SECONDS URL: by the date of its answers, give or take a minute.
is_ahead() {
	local there off

	there=$(curl -s -D - -o "$work/body" "$2" | tr -d '\r' | sed -n 's/^Date: //p')
	off=$(($(date -d "${there:?}" +%s) - $(date +%s) - $1))
	[ "${off#-}" -lt 60 ]
}

# What it says of its state: nothing more while nothing happens.
n_states() {
	grep -c 'agent: node-a is ' "$work/node-a.err" || true
}

# For longer than a lease nothing happens to anybody.
nothing_happens() {
	spend 8
	[ "$(generations)" = "$before" ] || fail "somebody had to register again"
	[ "$(server_metric nanoctrl_leases_expired_total)" = 0 ] || fail "a lease was ended"
	[ "$(server_metric nanoctrl_reaper_holds_total)" = "$holds" ] || fail "nanoctrl took it for a jump of Redis"
	[ "$(n_states)" = "$states" ] || fail "the agent lost its session"
	[ "$(metric node-a slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link was touched"
	link_is node-a node-b default connected || fail "the link is gone: $(links)"
}

start_redis
hold_port
with_clock server
spawn nanoctrl "${with[@]}" "$bin/nanoctrl" server --port "$port" --runtime-dir "$work/nanoctrl" \
	--redis-url "unix://$work/redis.sock" "${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
url=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")

write_agent node-a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b
with_clock agent
spawn node-a "${with[@]}" "$bin/peeragent" --config "$work/node-a.yaml" --set "control.url=$url"
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected
before=$(generations)
holds=$(server_metric nanoctrl_reaper_holds_total)
states=$(n_states)
# For a whole lease after its start nanoctrl gives nobody up.
spend 7

for offset in 3600 -3600; do
	say "the clock of nanoctrl is $offset s ahead, and that of an agent as much behind"
	set_clock server "$offset"
	set_clock agent $((-offset))
	wait_for 5 is_ahead "$offset" "$url/healthz" || fail "the server's clock did not jump: this test tests nothing"
	wait_for 5 is_ahead $((-offset)) "http://$(sed -n 's/.*metrics=//p' "$work/node-a.out")/metrics" ||
		fail "the agent's clock did not jump: this test tests nothing"
	nothing_happens
done

say "an agent dies"
end node-b KILL
wait_for 15 agent_is_gone node-b || fail "its lease is still there"
agent_is_there node-a || fail "node-a is gone, too"
