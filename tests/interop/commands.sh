#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of DLSlime's NanoCtrl and ours about each other's server, in the same runtime directory.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original
start_redis_at redis
take_port theirs
take_port ours
export NANOCTRL_RUNTIME_DIR=$work/run
unset NANOCTRL_REDIS_URL
redis=redis://127.0.0.1:${port_of[redis]}

# theirs COMMAND OPTION..., ours COMMAND OPTION...: what it prints is in $work/said.
theirs() {
	"$venv/bin/nanoctrl" "$@" >"$work/said" 2>&1
}
ours() {
	"$bin/nanoctrl" "$@" >"$work/said" 2>&1
}

# says TEXT
says() {
	grep -qF -- "$1" "$work/said" || fail "it does not say \"$1\": $(cat "$work/said")"
}

say "their server, our commands"
theirs start --host 127.0.0.1 --port "${port_of[theirs]}" --redis-url "$redis" || fail "theirs does not start: $(cat "$work/said")"
pid=$(cat "$NANOCTRL_RUNTIME_DIR/nanoctrl.pid")
pids[original]=$pid
theirs status || fail "theirs does not run"
says "health: ok"
ours status || fail "our status is $?: $(cat "$work/said")"
says "pid: $pid"
says "process: running"
says "health: ok"
ours start || fail "our start is $?"
says "nanoctrl is already running (pid=$pid)"
theirs status || fail "we took something from it"
ours stop || fail "our stop is $?"
says "nanoctrl stopped (pid=$pid)"
! kill -0 "$pid" 2>/dev/null || [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$pid/status")" = Z ] || fail "it lives"
unset 'pids[original]'
[ ! -e "$NANOCTRL_RUNTIME_DIR/nanoctrl.pid" ] || fail "its pid file is left"
[ ! -e "$NANOCTRL_RUNTIME_DIR/nanoctrl.meta.json" ] || fail "its meta file is left"

say "our server, their commands"
ours start --port "${port_of[ours]}" --redis-url "$redis" --set server.drain_accept=0 || fail "ours does not start: $(cat "$work/said")"
ours status || fail "ours does not run"
pid=$(sed -n 's/^pid: //p' "$work/said")
pids[ours]=$pid
theirs start --host 127.0.0.1 --port "${port_of[ours]}" --redis-url "$redis" || fail "their start is $?"
says "already running"
ours status || fail "they took something from it"
ours stop || fail "our stop is $?"
unset 'pids[ours]'
