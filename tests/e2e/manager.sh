#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A service manager starts nanoctrl and an agent: it hears when they are ready, live, read again and stop, and its
# directories are used.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# listen NAME: what comes to $work/NAME.socket goes to $work/heard-NAME.out, a line each.
listen() {
	spawn "heard-$1" python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1] + ".new")
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    print(s.recv(1024).decode(), flush=True)' "$work/$1.socket"
	wait_for 10 test -S "$work/$1.socket" || fail "no socket"
}

hears() {
	wait_for 10 grep -qx -- "$2" "$work/heard-$1.out" ||
		fail "the service manager did not hear $2 of $1, but: $(cat "$work/heard-$1.out")"
}

count() {
	grep -cx -- "$2" "$work/heard-$1.out" || true
}

more_than() {
	[ "$(count "$1" "$2")" -gt "$3" ]
}

say "nanoctrl is ready, and lives"
mkdir "$work/state" "$work/logs"
listen nanoctrl
hold_port
spawn nanoctrl env NOTIFY_SOCKET="$work/nanoctrl.socket" WATCHDOG_USEC=1000000 RUNTIME_DIRECTORY="$work/run:/nonexistent" \
	STATE_DIRECTORY="$work/state" LOGS_DIRECTORY="$work/logs" "$bin/nanoctrl" server --port "$port" "${lease[@]}"
hears nanoctrl READY=1
hears nanoctrl "STATUS=serves at http://127.0.0.1:$port"
wait_for 10 more_than nanoctrl WATCHDOG=1 2 || fail "no signs of life of nanoctrl"
url=http://127.0.0.1:$port
for file in run/nanoctrl.pid logs/nanoctrl.log state/redis.key; do
	[ -e "$work/$file" ] || fail "there is no $file"
done

say "nanoctrl reads again"
kill -HUP "${pids[nanoctrl]}"
hears nanoctrl RELOADING=1
hears nanoctrl 'MONOTONIC_USEC=[0-9]*'
wait_for 10 more_than nanoctrl READY=1 1 || fail "the reload of nanoctrl does not end"

say "an agent is ready once it is registered"
listen agent
write_agent node-a
spawn node-a env NOTIFY_SOCKET="$work/agent.socket" WATCHDOG_USEC=1000000 STATE_DIRECTORY="$work/state" \
	LOGS_DIRECTORY="$work/logs" "$bin/peeragent" --config "$work/node-a.yaml" --set "control.url=$url"
hears agent READY=1
curl -sf "$url/v1/agents/node-a?scope=test" >/dev/null || fail "it is not registered"
wait_for 10 more_than agent WATCHDOG=1 2 || fail "no signs of life of the agent"
[ -s "$work/logs/peeragent.log" ] || fail "there is no log of the agent"
[ -s "$work/state/test:node-a.key" ] || fail "there is no owner key of the agent"
kill -HUP "${pids[node-a]}"
hears agent RELOADING=1
wait_for 10 more_than agent READY=1 1 || fail "the reload of the agent does not end"

say "an agent without nanoctrl is not ready"
listen alone
write_agent node-b
spawn node-b env NOTIFY_SOCKET="$work/alone.socket" "$bin/peeragent" --config "$work/node-b.yaml" \
	--set control.url=http://127.0.0.1:1
hears alone 'STATUS=waits for nanoctrl'
end node-b
hears alone STOPPING=1
[ "$(count alone READY=1)" = 0 ] || fail "an agent without nanoctrl says that it is ready"

say "both stop"
end node-a
hears agent STOPPING=1
end nanoctrl
hears nanoctrl STOPPING=1

say "a socket that is none is an error in the log, and nothing else"
spawn nanoctrl env NOTIFY_SOCKET=relative "$bin/nanoctrl" server --port "$port" --runtime-dir "$work/run" \
	--data-dir "$work/state" "${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
grep -q 'service manager: NOTIFY_SOCKET: Invalid argument' "$work/nanoctrl.err" || fail "the log does not say what is wrong"
end nanoctrl
