# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # what it sets is for them
# Sourced by scripts of cases with a real nanoctrl, each a function case_NAME, that end with: run_cases "$@"
set -euo pipefail

command -v redis-server >/dev/null || exit 77
program=${SLIME_BIN:?}/nanoctrl
dir=$(mktemp -d)
export NANOCTRL_RUNTIME_DIR=$dir/run XDG_STATE_HOME=$dir/state
unset NANOCTRL_SCOPE DLSLIME_CTRL_SCOPE NANOCTRL_REDIS_ADVERTISE DLSLIME_CTRL_REDIS_ADVERTISE REDIS_PUBLIC_ADDRESS NANOCTRL_LOG_LEVEL
unset NANOCTRL_REDIS_URL DLSLIME_CTRL_REDIS_URL DLSLIME_CTRL_RUNTIME_DIR NANOCTRL_RUST_LOG DLSLIME_CTRL_RUST_LOG
options=(--port 0 --data-dir "$dir/data" --set server.drain_accept=0)
case_name=none
given= # what a case runs besides: a Redis for nanoctrl, as a rule
watcher= # a nanoctrl top beside that

nc() {
	timeout 120 "$program" "$@" </dev/null
}

# Of a server that runs, ready (0) or not (4).
field() {
	{ nc status || [ $? -eq 4 ]; } | sed -n "s/^$1: //p"
}

redis_pid() {
	cut -d' ' -f1 "$dir/data/redis.pid"
}

# private_redis WORD...: a command to nanoctrl's own Redis, as nanoctrl.
private_redis() {
	redis-cli -s "$dir/data/redis.sock" --user nanoctrl --pass "$(cat "$dir/data/redis.key")" --no-auth-warning "$@"
}

# Waits until a process has ended; one that nobody has reaped has.
# Its first thread may be a zombie while others still hold its locks.
await_end() {
	timeout 120 sh -c "while cat /proc/$1/task/*/status | grep -q '^State:.[^Z]'; do sleep 0.02; done" 2>/dev/null
}

# The rights of those who give no password.
rights_of_others() {
	private_redis acl list | sed -n 's/^user default //p'
}

# metric_is NAME VALUE: a metric of the store.
metric_is() {
	[ "$(curl -sf -m 60 "$(field address)/metrics" | sed -n "s/^nanoctrl_store_$1 //p")" = "$2" ]
}

# Whether the status has no warning.
is_quiet() {
	nc status >"$dir/status" && ! grep -q '^warning: ' "$dir/status"
}

# Everything that a case may have left, also when it failed half-way.
clean() {
	nc stop --force --timeout 5s --data-dir "$dir/data" >/dev/null 2>&1 || true
	[ -z "$given" ] || kill "$given" 2>/dev/null || true
	[ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
	given=
	watcher=
	# What a former case was told, too: nobody takes it for what the next one is.
	find "$dir" -mindepth 1 -delete 2>/dev/null || true
}

finish() {
	local status=$?

	[ "$status" -eq 0 ] || {
		echo "case $case_name failed; the log:"
		cat "$dir/run/nanoctrl.log" "$dir/data/redis.log" "$dir/out" 2>/dev/null | tail -40 || true
	}
	clean
	rm -rf "$dir"
	exit "$status"
}
trap finish EXIT
trap 'exit 1' INT TERM

die() {
	echo "$*"
	exit 1
}

# expect STATUS TEXT COMMAND...: the exit status, and the text somewhere in what it prints.
expect() {
	local wanted=$1 text=$2 status=0

	"${@:3}" >"$dir/out" 2>&1 || status=$?
	[ "$status" -eq "$wanted" ] || die "${*:3}: status $status, not $wanted"
	grep -qF -- "$text" "$dir/out" || die "${*:3}: does not say \"$text\""
}

# until_says TEXT COMMAND...: it says so in the end, whatever its status. All of it is read before grep looks: who has
# found what it wants reads no further, and a command that is not read to its end may fail for that.
until_says() {
	local text=$1 deadline=$((SECONDS + 120))

	until grep -qF -- "$text" <<<"$("${@:2}" 2>&1)"; do
		[ "$SECONDS" -lt "$deadline" ] || die "${*:2}: never says \"$text\""
		sleep 0.02
	done
}

# What a case runs besides has done its work.
end_given() {
	kill "$given"
	wait "$given" || true
	given=
}

# wait_for COMMAND...: it succeeds in the end.
wait_for() {
	local deadline=$((SECONDS + 120))

	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || die "never: $*"
		sleep 0.02
	done
}

# Keeps a port for nanoctrl, in $port: a socket that is bound and does not listen keeps others from it.
hold_port() {
	python3 -c '
import signal, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()' >"$dir/port" &
	given=$!
	wait_for test -s "$dir/port"
	port=$(cat "$dir/port")
}

# A Redis that nanoctrl is given, in the end: $dir/given.sock.
run_given_redis() {
	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
}

# The same, once it answers.
give_redis() {
	run_given_redis
	wait_for redis-cli -s "$dir/given.sock" ping
}

# redis_at_a_port OPTION ARG...: a Redis, in $given, whose OPTION is a free port of this host, in $port, and other ARGs. Nobody
# takes the port before Redis does: the process has it bound, and becomes redis-server.
redis_at_a_port() {
	rm -f "$dir/port"
	python3 -c '
import os, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
s.set_inheritable(True)
port = str(s.getsockname()[1])
with open(sys.argv[1], "w") as f:
	f.write(port)
os.execvp("redis-server", ["redis-server", sys.argv[2], port] + sys.argv[3:])' "$dir/port" "$@" >"$dir/other" 2>&1 &
	given=$!
	wait_for test -s "$dir/port"
	port=$(cat "$dir/port")
}

# A server that is no nanoctrl, and answers 200 to anything; its port is in $port.
other_server() {
	python3 -c '
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
	def do_GET(self):
		self.send_response(200)
		self.end_headers()
		self.wfile.write(b"another server")
s = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(s.server_port, flush=True)
s.serve_forever()' >"$dir/other" 2>/dev/null &
	given=$!
	wait_for test -s "$dir/other"
	port=$(cat "$dir/other")
}

# like FILE LINE...: each line of the file is as its pattern, and there are no others.
like() {
	local file=$1 line
	shift

	while read -r line; do
		[ $# -gt 0 ] || die "nobody asked for \"$line\""
		grep -qxE -- "$1" <<<"$line" || die "\"$line\" is not like \"$1\""
		shift
	done <"$file"
	[ $# -eq 0 ] || die "no line like \"$1\""
}

# An address of this host that is not loopback, if there is one; what needs it is skipped without.
other_address() {
	other=$(hostname -I | tr ' ' '\n' | grep -m 1 -F . || true)
	[ -n "$other" ] || echo "[  SKIPPED ] ${case_name}_beyond_loopback"
}

# run_cases [CASE...]: these, or all.
run_cases() {
	local all

	mapfile -t all < <(declare -F | sed -n 's/^declare -f case_//p')
	for case_name in "${@:-${all[@]}}"; do
		clean
		"case_$case_name"
		echo "ok: $case_name"
	done
}
