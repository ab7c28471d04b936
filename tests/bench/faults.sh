#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench while the world around it ends: the peer killed or stopped, the control plane killed, memory refused. Each
# run ends in bounded time, with the status and the words that fit.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

bench_service='services: [ { name: echo }, { name: bench, options: { size: "4194304" } } ]'
write_agent node-a "$bench_service"
write_agent node-b "$bench_service" 'metrics: { listen: "127.0.0.1:0" }'
start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b

both_are_there() {
	agent_is_there node-a && agent_is_there node-b
}

# start_run NAME TRANSPORT COMMAND [OPTION...]: until its link is there, so that what follows meets it at work.
start_run() {
	local initiator='bench-.*'

	[[ " $* " != *" --from node-a "* ]] || initiator=node-a
	# Whoever was stopped may have lost its lease meanwhile, and is back in a moment.
	wait_for 15 both_are_there || fail "an agent is not registered"
	spawn "$1" "$bin/slime-bench" "$3" --ctrl "$url" --scope test --peer node-b --transport "$2" "${@:4}"
	wait_for 15 link_is "$initiator node-b bench-$2 connected" || fail "no link of slime-bench: $(links)"
}

# ended_within SECONDS NAME STATUS: its exit status, and not much later: the machine may be busy, too.
ended_within() {
	local limit=$1 name=$2 begin=$SECONDS

	reap "$name"
	[ "$status" -eq "$3" ] || fail "$name ended with $status"
	[ $((SECONDS - begin)) -le $((6 * limit)) ] || fail "$name took $((SECONDS - begin)) s to end"
}

says() {
	grep -q -- "$2" "$work/$1.err" || fail "$1 says: $(cat "$work/$1.err")"
}

# A peer that is registered and answers nobody is waited for, and not for ever. Beside the rest, since it takes its
# time; again when its lease has ended before slime-bench asked.
unreachable() {
	local begin

	for _ in 1 2 3 4 5; do
		kill -STOP "${pids[node-d]}"
		begin=$SECONDS
		! setpriv --pdeathsig KILL -- "$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-d \
			>"$work/unreachable.out" 2>"$work/unreachable.err" || return 1
		kill -CONT "${pids[node-d]}"
		! grep -q '^slime-bench: the link to node-d did not come up: ' "$work/unreachable.err" ||
			return $((SECONDS - begin < 10 || SECONDS - begin > 60))
		wait_for 15 agent_is_there node-d || return 1
	done
	return 1
}
write_agent node-d
start_agent node-d
wait_ready node-d
unreachable &
pids[unreachable]=$!

for transport in shm tcp; do
	for command in transfer rpc; do
		say "kill -9 of the peer during $command over $transport"
		what='read'
		[ "$command" = transfer ] || what='echo of 65536 bytes'
		start_run killed "$transport" "$command" --set "$command.duration=1h" --set 'rpc.sizes=[64KiB]'
		end node-b KILL
		ended_within 10 killed 1
		# Under an operation, or between two.
		says killed "^slime-bench: $what: \(Connection reset by peer\|Transport endpoint is not connected\)"
		[ ! -s "$work/killed.out" ] || fail "it printed a result"
		start_agent node-b
		wait_ready node-b
	done
done

for transport in shm tcp; do
	for command in transfer rpc; do
		say "the peer stopped for a second during $command over $transport"
		start_run stopped "$transport" "$command" --set "$command.duration=3s" --set 'rpc.sizes=[64KiB]'
		kill -STOP "${pids[node-b]}"
		spend 1
		kill -CONT "${pids[node-b]}"
		ended_within 20 stopped 0
		[ -s "$work/stopped.out" ] || fail "it printed no result"
	done
done

# What node-b itself sees: whoever asks it next is told of that.
writers_at_node_b() {
	local address now

	address=$(sed -n 's/.*metrics=//p' "$work/node-b.out")
	now=$(curl -sf "http://$address/metrics") || return 1
	grep -c '^slime_link_state{peer="bench-.*state="connected"} 1$' <<<"$now" || true
}

there_are_writers() {
	[ "$(writers_at_node_b)" = "$1" ]
}

for signal in KILL:137 TERM:143; do
	say "a writer's end by ${signal%:*} leaves the region to the next one"
	start_run writer shm transfer --op write --duration 1h
	wait_for 15 there_are_writers 1 || fail "node-b has no link of it"
	end writer "${signal%:*}"
	[ "$status" -eq "${signal#*:}" ] || fail "it ended with $status"
	wait_for 10 there_are_writers 0 || fail "node-b keeps its link"
	spawn next "$bin/slime-bench" transfer --ctrl "$url" --scope test --peer node-b --op write --duration 100ms
	ended_within 10 next 0
done

say "the initiator stopped for a second, which another agent is"
start_run stopped tcp rpc --from node-a --sizes 64KiB --duration 3s
kill -STOP "${pids[node-a]}"
spend 1
kill -CONT "${pids[node-a]}"
ended_within 20 stopped 0

say "the peer that answered nobody"
reap unreachable
[ "$status" -eq 0 ] || fail "it is not waited for: $(cat "$work/unreachable.err")"

say "nanoctrl and its Redis killed during a measurement"
start_run alone shm transfer --duration 4s
start_run behalf tcp rpc --from node-a --sizes 64KiB --duration 4s
end nanoctrl KILL
end redis KILL
ended_within 25 alone 0
ended_within 25 behalf 0
grep -q verified "$work/alone.out" || fail "not verified: $(cat "$work/alone.out")"
start_control
wait_for 15 both_are_there || fail "the agents are not registered again"

say "memory refused"
spawn without prlimit --fsize=16777216 "$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --sizes 64MiB
ended_within 20 without 1
says without '^slime-bench: echo of 67108864 bytes: File too large'
write_agent node-e 'services: [ { name: bench } ]'
spawn node-e prlimit --fsize=16777216 "$bin/peeragent" --config "$work/node-e.yaml" --set "control.url=$url"
ended_within 20 node-e 1
says node-e 'region bench of 67108864 bytes: File too large'
! grep -q 'is ready' "$work/node-e.err" || fail "its memory is filled while the lease runs: $(cat "$work/node-e.err")"
write_agent node-c 'regions: [ { name: kv, size: 64MiB } ]'
spawn node-c prlimit --fsize=16777216 "$bin/peeragent" --config "$work/node-c.yaml" --set "control.url=$url"
ended_within 20 node-c 1
says node-c 'kv.*File too large'
