#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl start, status, stop with real processes: cli_life.sh [CASE...]
set -euo pipefail

command -v redis-server >/dev/null || exit 77
program=${SLIME_BIN:?}/nanoctrl
dir=$(mktemp -d)
export NANOCTRL_RUNTIME_DIR=$dir/run XDG_STATE_HOME=$dir/state
unset NANOCTRL_REDIS_URL DLSLIME_CTRL_REDIS_URL DLSLIME_CTRL_RUNTIME_DIR NANOCTRL_RUST_LOG DLSLIME_CTRL_RUST_LOG
options=(--port 0 --data-dir "$dir/data" --set server.drain_accept=0)
case_name=none
given= # what a case runs besides: a Redis for nanoctrl, as a rule

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

# Waits until a process has ended; one that nobody has reaped has.
# Its first thread may be a zombie while others still hold its locks.
await_end() {
	timeout 120 sh -c "while cat /proc/$1/task/*/status | grep -q '^State:.[^Z]'; do :; done" 2>/dev/null
}

# Everything that a case may have left, also when it failed half-way.
clean() {
	nc stop --force --timeout 5s --data-dir "$dir/data" >/dev/null 2>&1 || true
	[ -z "$given" ] || kill "$given" 2>/dev/null || true
	given=
	rm -rf "$dir/run" "$dir/data" "$dir/state"
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

# until_says TEXT COMMAND...: it says so in the end.
until_says() {
	local text=$1 deadline=$((SECONDS + 120))

	until "${@:2}" 2>&1 | grep -qF -- "$text"; do
		[ "$SECONDS" -lt "$deadline" ] || die "${*:2}: never says \"$text\""
	done
}

case_starts_once_and_stops_twice() {
	expect 1 "not running" nc status
	expect 0 "nanoctrl started (pid=" nc start "${options[@]}"
	local pid
	pid=$(field pid)
	expect 0 "already running (pid=$pid)" nc start "${options[@]}"
	expect 0 "ready: yes" nc status
	local redis
	redis=$(redis_pid)
	expect 0 "stopped (pid=$pid)" nc stop
	await_end "$redis"
	expect 0 "not running" nc stop
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "its pid file is left"
	[ ! -e "$dir/run/nanoctrl.meta.json" ] || die "its meta file is left"
}

case_keeps_its_state_private() {
	expect 0 started nc start "${options[@]}"
	! grep -q warning "$dir/out" || die "it says that its own Redis is not there"
	[ "$(stat -c %a "$dir/data")" = 700 ] || die "others may look into the data directory"
	[ "$(stat -c %a "$dir/data/redis.sock")" = 600 ] || die "others may speak to Redis"
	expect 0 "always" redis-cli -s "$dir/data/redis.sock" config get appendfsync
	expect 0 "noeviction" redis-cli -s "$dir/data/redis.sock" config get maxmemory-policy
	expect 0 stopped nc stop
}

case_two_starts_race() {
	local one two
	nc start "${options[@]}" >"$dir/one" 2>&1 &
	one=$!
	nc start "${options[@]}" >"$dir/two" 2>&1 &
	two=$!
	wait "$one" || die "one: $(cat "$dir/one")"
	wait "$two" || die "two: $(cat "$dir/two")"
	[ "$(cat "$dir/one" "$dir/two" | grep -c '^nanoctrl started')" = 1 ] ||
		die "not one of them started it: $(cat "$dir/one" "$dir/two")"
	expect 0 stopped nc stop
}

case_a_start_during_the_end_of_another_waits_for_it() {
	local pid

	expect 0 started nc start "${options[@]}" --set server.drain_accept=60s
	pid=$(field pid)
	kill -TERM "$pid"
	until_says "shutting down" cat "$dir/run/nanoctrl.log"
	expect 1 "it is shutting down, and has not ended yet" nc start "${options[@]}" --wait 200ms
	nc start "${options[@]}" --wait 100s >"$dir/out" 2>&1 &
	kill -TERM "$pid" # now, at once
	wait $! || die "$(cat "$dir/out")"
	grep -q "^nanoctrl started" "$dir/out" || die "$(cat "$dir/out")"
	expect 0 "ready: yes" nc status
	expect 0 stopped nc stop
}

case_a_killed_server_is_replaced_and_its_redis_adopted() {
	expect 0 started nc start "${options[@]}"
	local pid redis
	pid=$(field pid)
	redis=$(redis_pid)
	redis-cli -s "$dir/data/redis.sock" set kept yes >/dev/null
	kill -9 "$pid"
	await_end "$pid"
	expect 1 "not running" nc status
	expect 0 started nc start "${options[@]}"
	[ "$(redis_pid)" = "$redis" ] || die "another redis-server runs"
	[ "$(redis-cli -s "$dir/data/redis.sock" get kept)" = yes ] || die "its data is gone"
	grep -q "adopted" "$dir/run/nanoctrl.log"
	expect 0 stopped nc stop
	await_end "$redis"
}

case_stop_ends_the_redis_of_a_killed_server() {
	expect 0 started nc start "${options[@]}"
	local pid redis
	pid=$(field pid)
	redis=$(redis_pid)
	kill -9 "$pid"
	await_end "$pid"
	expect 0 "its Redis was ended" nc stop
	await_end "$redis"
	# Again without a pause: the dying server may still hold its locks.
	expect 0 started nc start "${options[@]}"
	redis=$(redis_pid)
	kill -9 "$(field pid)"
	expect 0 "its Redis was ended" nc stop
	await_end "$redis"
	expect 0 "nanoctrl is not running" nc stop
}

case_stop_of_one_with_a_given_redis_leaves_the_private_one_of_another() {
	local one other redis

	expect 0 started nc start "${options[@]}"
	one=$(field pid)
	redis=$(redis_pid)
	expect 0 started nc start "${options[@]}" --runtime-dir "$dir/second" --redis-url "unix://$dir/data/redis.sock"
	other=$(nc status --runtime-dir "$dir/second" | sed -n 's/^pid: //p')
	kill -9 "$one" "$other"
	await_end "$one"
	await_end "$other"
	nc stop --runtime-dir "$dir/second" --data-dir "$dir/data" >"$dir/out" 2>&1 || die "it does not stop"
	like "$dir/out" 'nanoctrl is not running \(stale pid file cleaned\)'
	expect 0 "its Redis was ended" nc stop
	await_end "$redis"
	rm -rf "$dir/second"
}

case_a_redis_that_dies_is_started_again() {
	expect 0 started nc start "${options[@]}"
	local redis url
	redis=$(redis_pid)
	url=$(field address)
	redis-cli -s "$dir/data/redis.sock" set kept yes >/dev/null
	kill -9 "$redis"
	timeout 120 sh -c "until [ \"\$(cut -d' ' -f1 '$dir/data/redis.pid')\" != $redis ] &&
		redis-cli -s '$dir/data/redis.sock' ping && curl -sf -m 60 '$url/readyz'; do :; done" >/dev/null 2>&1
	[ "$(redis-cli -s "$dir/data/redis.sock" get kept)" = yes ] || die "its data is gone"
	expect 0 stopped nc stop
}

case_a_stale_pid_file_names_a_stranger() {
	mkdir -p "$dir/run"
	chmod 700 "$dir/run"
	# The pid of a process that lives, in a file that nobody locks.
	printf 'slime-pid 1\n%d 1 %s\nhttp://127.0.0.1:1\n' $$ "$(cat /proc/sys/kernel/random/boot_id)" >"$dir/run/nanoctrl.pid"
	expect 1 "not running" nc status
	expect 0 "not running" nc stop
	expect 0 started nc start "${options[@]}"
	expect 0 stopped nc stop
}

case_a_pid_file_that_nobody_can_read_is_left_alone() {
	mkdir -m 700 "$dir/run"
	python3 -c '
import fcntl, signal, sys
f = open(sys.argv[1], "w")
f.write("nanoctrl serves at\n")
f.flush()
fcntl.lockf(f, fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
signal.pause()' "$dir/run/nanoctrl.pid" "$dir/run/nanoctrl.meta.json" &
	given=$!
	timeout 120 sh -c "until [ -e '$dir/run/nanoctrl.meta.json' ]; do :; done"
	expect 1 "cannot tell who holds $dir/run/nanoctrl.pid: it is no pid file of nanoctrl" nc stop
	[ -e "$dir/run/nanoctrl.meta.json" ] || die "it took a file of whoever that is"
	expect 1 "cannot tell who holds $dir/run/nanoctrl.pid" nc status
	kill "$given"
	wait "$given" || true
	given=
	expect 0 "not running" nc stop
}

case_a_data_directory_has_one_owner() {
	expect 0 started nc start "${options[@]}"
	expect 1 "another nanoctrl owns the data directory" nc start "${options[@]}" --runtime-dir "$dir/second"
	expect 0 "ready: yes" nc status
	expect 0 stopped nc stop
}

case_directories_are_private_also_with_a_slash_at_their_end() {
	expect 0 started nc start "${options[@]}" --data-dir "$dir/data//" --runtime-dir "$dir/run/"
	[ "$(stat -c %a "$dir/data" "$dir/run" | sort -u)" = 700 ] || die "others may look into them"
	expect 0 "data: $dir/data" nc status
	expect 0 stopped nc stop
}

case_a_redis_that_says_nothing_is_said_to() {
	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do :; done" >/dev/null 2>&1 || die "no Redis"
	kill -STOP "$given"
	expect 1 "given.sock: it has not answered yet" nc obs peers --redis-url "unix://$dir/given.sock" --set redis.timeout=100ms
	expect 1 "it has not answered yet" nc gc --dry-run --redis-url "unix://$dir/given.sock" --set redis.timeout=100ms
	kill -CONT "$given"
	kill "$given"
	wait "$given" || true
	given=
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
	timeout 120 sh -c "until [ -s '$dir/other' ]; do :; done"
	port=$(cat "$dir/other")
}

case_a_port_in_use_is_said() {
	local port

	other_server
	expect 1 "cannot listen on 127.0.0.1 port $port: Address already in use" nc start "${options[@]}" --port "$port"
	expect 1 "log: $dir/run/nanoctrl.log" nc start "${options[@]}" --port "$port"
	expect 1 "port 0 and $port: Address already in use" nc start "${options[@]}" --second-port "$port"
	[ ! -e "$dir/data/redis.pid" ] || die "it left a Redis"
	# It answers, but is none.
	expect 1 "health: down (" nc status --address "http://127.0.0.1:$port"
	kill "$given"
	wait "$given" || true
	given=
}

case_a_nanoctrl_that_nobody_here_knows_is_left_alone() {
	local port

	expect 0 started nc start "${options[@]}"
	port=$(field address)
	port=${port##*:}
	expect 0 "nanoctrl appears to be already running at http://127.0.0.1:$port (no pid file managed by this CLI)" \
		nc start --port "$port" --data-dir "$dir/data2" --runtime-dir "$dir/second"
	[ ! -e "$dir/data2/redis.pid" ] || die "it left a Redis"
	expect 1 "nanoctrl is not running (no pid file)" nc status --runtime-dir "$dir/second"
	expect 1 "health: ok" nc status --runtime-dir "$dir/second" --address "http://127.0.0.1:$port"
	expect 0 stopped nc stop
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

case_it_says_what_the_original_says() {
	local pid

	nc start "${options[@]}" >"$dir/out" || die "it does not start"
	like "$dir/out" 'Local node IP: [0-9.]+' '' 'nanoctrl started \(pid=[0-9]+\)' 'address: http://127\.0\.0\.1:[0-9]+' \
		"log: $dir/run/nanoctrl.log"
	pid=$(sed -n 's/.*pid=\([0-9]*\).*/\1/p' "$dir/out")
	nc status >"$dir/out" || die "it does not run"
	like "$dir/out" "pid: $pid" 'process: running' 'address: http://127\.0\.0\.1:[0-9]+' 'health: ok' 'ready: yes' \
		"log: $dir/run/nanoctrl.log" "data: $dir/data" "runtime: $dir/run"
	python3 - "$dir/run/nanoctrl.meta.json" "$pid" <<'END' || die "the meta file is not that of the original"
import json, sys
meta = json.load(open(sys.argv[1]))
assert meta["pid"] == int(sys.argv[2]) and meta["address"].startswith("http://") and meta["started_at"] > 0
assert meta["cmd"][1] == "start" and meta["log"].endswith("nanoctrl.log")
END
	nc stop >"$dir/out"
	like "$dir/out" "nanoctrl stopped \\(pid=$pid\\)"
	nc stop >"$dir/out"
	like "$dir/out" 'nanoctrl is not running'
	nc status >"$dir/out" && die "it runs"
	like "$dir/out" 'nanoctrl is not running \(no pid file\)' 'health: down .*'
	expect 0 started nc start "${options[@]}"
	pid=$(field pid)
	kill -STOP "$pid"
	expect 1 "Error: nanoctrl did not stop within 0.2s; rerun with --force" nc stop --timeout 0.2
	expect 0 "nanoctrl killed (pid=$pid)" nc stop --timeout 0.2 --force
	expect 0 started nc start "${options[@]}"
	pid=$(field pid)
	kill -9 "$pid"
	await_end "$pid"
	nc status >"$dir/out" && die "it runs"
	like "$dir/out" "pid: $pid" 'process: not running' 'address: http://.*' 'health: down .*' "log: $dir/run/nanoctrl.log"
	expect 0 "nanoctrl is not running (stale pid file cleaned)" nc stop
	expect 0 "nanoctrl 0." nc --version
}

case_options_without_a_command_are_the_servers() {
	local pid

	"$program" "${options[@]}" >"$dir/out1" 2>"$dir/err1" </dev/null &
	pid=$!
	until_says "ready: yes" nc status
	grep -q 'serves at http://127.0.0.1:' "$dir/out1" || die "it does not say where"
	expect 0 "process: running" nc status
	kill -TERM "$pid"
	wait "$pid" || die "it ended with $?"
	expect 0 "COMMAND" nc --help
}

case_a_second_port_serves_the_same() {
	local port

	expect 0 started nc start "${options[@]}"
	port=$(field address)
	port=${port##*:}
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}" --second-port "$port"
	[ "$(field address)" != "http://127.0.0.1:$port" ] || die "it has one port only"
	expect 0 "NanoCtrl Server Running" curl -s -m 60 "http://127.0.0.1:$port/"
	expect 0 "NanoCtrl Server Running" curl -s -m 60 "$(field address)/"
	expect 0 stopped nc stop
	! curl -s -m 60 "http://127.0.0.1:$port/" || die "the second port is left"
}

case_it_is_asked_where_the_options_say() {
	expect 0 "address: http://127.0.0.2:" nc start "${options[@]}" --host 0.0.0.0 --insecure --health-host 127.0.0.2
	expect 0 "health: ok" nc status
	expect 0 stopped nc stop
	# Not the wildcard, which nobody can connect to from elsewhere.
	expect 0 started nc start "${options[@]}" --host 0.0.0.0 --insecure
	! grep -q 'address: http://0' "$dir/out" || die "it says the wildcard"
	expect 0 stopped nc stop
	expect 1 "does not answer as the server that was started" nc start "${options[@]}" --health-port 1
	expect 1 "not running" nc status
}

case_the_environment_has_the_names_of_the_original() {
	local name

	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	for name in NANOCTRL DLSLIME_CTRL; do
		unset NANOCTRL_RUNTIME_DIR
		export "${name}_RUNTIME_DIR=$dir/env-$name" "${name}_REDIS_URL=unix://$dir/given.sock" "${name}_RUST_LOG=debug,x=warn"
		expect 0 "log: $dir/env-$name/nanoctrl.log" nc start --port 0 --set server.drain_accept=0
		expect 0 " debug " cat "$dir/env-$name/nanoctrl.log"
		timeout 120 sh -c "until '$program' status | grep -q 'ready: yes'; do :; done" || die "it has another Redis"
		expect 0 "nanoctrl stopped" nc stop
		# What is on the command line counts.
		expect 0 "not ready: Redis does not serve" nc start --port 0 --set server.drain_accept=0 --runtime-dir "$dir/run" \
			--redis-url "unix://$dir/none.sock" --log-level error
		! grep -q " debug " "$dir/run/nanoctrl.log" || die "the environment beat the command line"
		expect 0 "nanoctrl stopped" nc stop --runtime-dir "$dir/run"
		unset "${name}_RUNTIME_DIR" "${name}_REDIS_URL" "${name}_RUST_LOG"
	done
	export NANOCTRL_RUNTIME_DIR=$dir/run
	kill "$given"
	wait "$given" || true
	given=
}

case_redis_is_told_as_the_environment_says() {
	local url

	DLSLIME_CTRL_REDIS_ADVERTISE=redis://redis.example:7 expect 0 started nc start "${options[@]}"
	url=$(field address)
	expect 0 '"redis_address":"redis.example:7"' curl -s -m 60 -X POST "$url/start_peer_agent" \
		-H 'Content-Type: application/json' -d '{"alias":"a","address":"10.0.0.9"}'
	expect 0 '"redis_address":"redis://redis.example:7"' curl -s -m 60 -X POST "$url/get_redis_address" \
		-H 'Content-Type: application/json' -d '{}'
	expect 0 stopped nc stop
}

case_without_its_redis_it_is_not_ready_until_it_comes() {
	local url
	expect 0 "not ready: Redis does not serve" nc start --port 0 --set server.drain_accept=0 \
		--redis-url "unix://$dir/given.sock"
	url=$(field address)
	expect 4 "ready: no (Redis does not serve" nc status
	expect 0 " 503 " curl -si -m 60 "$url/v1/agents"
	expect 0 '"status":"ok"' curl -s -m 60 "$url/readyz?local=1"
	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 120 sh -c "until curl -sf -m 60 '$url/readyz'; do :; done" >/dev/null ||
		die "it did not recover"
	expect 0 "ready: yes" nc status
	# Ready means that whichever loop takes a connection can answer it.
	for _ in 1 2 3 4 5 6 7 8; do
		expect 0 '"agents":[]' curl -s -m 60 "$url/v1/agents"
	done
	expect 0 stopped nc stop
	kill -0 "$given" || die "it ended a Redis that is not its own"
	kill "$given"
	wait "$given" || true
	given=
}

case_a_node_of_a_redis_cluster_is_used_as_such_only() {
	local port tries=5

	# Another process may take the port before Redis does.
	until [ -n "$given" ] || [ $((tries--)) -eq 0 ]; do
		port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
		redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" --cluster-enabled yes \
			--cluster-port "$port" --bind 127.0.0.1 >"$dir/cluster" 2>&1 &
		given=$!
		timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do kill -0 $given || exit 1; done" >/dev/null 2>&1 || given=
	done
	[ -n "$given" ] || die "no Redis: $(cat "$dir/cluster")"
	expect 0 "not ready: Redis does not serve: it is a node of a Redis Cluster, which is given as redis+cluster://" nc start --port 0 --set server.drain_accept=0 \
		--redis-url "unix://$dir/given.sock"
	expect 4 "ready: no (Redis does not serve: it is a node of a Redis Cluster" nc status
	expect 0 " 503 " curl -si -m 60 "$(field address)/v1/agents"
	expect 0 "it is a node of a Redis Cluster" cat "$dir/run/nanoctrl.log"
	[ "$(redis-cli -s "$dir/given.sock" dbsize)" = 0 ] || die "it wrote there"
	expect 0 stopped nc stop
	kill "$given"
	wait "$given" || true
	given=
}

case_a_password_is_nowhere_to_be_read() {
	expect 0 started nc start --port 0 --set server.drain_accept=0 --redis-url redis://me:hidden-word@127.0.0.1:1/0
	local pid
	pid=$(field pid)
	! grep -aq hidden-word "/proc/$pid/cmdline" || die "ps shows it"
	! grep -rq hidden-word "$dir/run" || die "a file has it"
	expect 0 stopped nc stop
}

case_wrong_words_and_values_are_refused() {
	expect 2 "nanoctrl: --port: expected a port" nc start --port 99999
	expect 2 "server.port" nc start --set server.port=x
	expect 1 "nanoctrl: --host: expected a loopback address" nc start --host 0.0.0.0
	expect 2 "nanoctrl: --redis-url: expected a Redis URL: it begins with none of" nc start --redis-url foo
	expect 0 "Usage: nanoctrl obs COMMAND" nc obs --help
	nc obs --help | grep -q '^  obs links ' || die "not its commands"
	! nc obs --help | grep -q '^  start ' || die "other commands"
	expect 2 "expected one of status, peers, nics, links" nc obs
	printf 'version: 1\nserver:\n  prot: 1\n' >"$dir/bad.yaml"
	expect 2 "bad.yaml:3:3: " nc start --config "$dir/bad.yaml"
	expect 2 "missing.yaml" nc start --config "$dir/missing.yaml"
	expect 2 "lease.beat: expected at most half of lease.ttl" nc start "${options[@]}" --set lease.ttl=4s
	expect 2 "HOST:PORT" nc start --port 0 --redis-advertise redis.example:99999
	expect 2 "HOST:PORT" nc start --port 0 --redis-advertise redis.example:0
	expect 2 "expected a Redis URL" nc start --port 0 --redis-url http://127.0.0.1
	expect 1 "cannot run" nc start "${options[@]}" --set redis.program=/nonexistent/redis
	expect 2 "expected an absolute path" nc start --port 0 --data-dir relative
	expect 1 "the name of the data directory is longer than" nc start --port 0 --data-dir "$dir/$(printf '%0100d' 0)"
	expect 1 "$dir/a?b has a question mark" nc start --port 0 --data-dir "$dir/a?b"
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "something was started"
}

# What has a default, as KEY=VALUE: by the program's table, and by the file.
case_the_example_configuration_is_the_defaults() {
	local file=${SLIME_SOURCE:?}/configs/nanoctrl.yaml

	nc --help=settings | awk -F'|' '
		/^\| `/ { gsub(/[` ]/, "", $2); gsub(/[` ]/, "", $4); if ($4 != "") print $2 "=" $4 }' | sort >"$dir/defaults"
	awk '
		{ sub(/ *#.*/, "") }
		/^[a-z_]+:$/ { part = $1; sub(":", ".", part) }
		/^[^ ].*: / { part = "" }
		/: / { sub(":", "", $1); print part $1 "=" $2 }' "$file" | sort >"$dir/example"
	[ -s "$dir/defaults" ] || die "no defaults"
	diff "$dir/defaults" "$dir/example" || die "other than the defaults: $file"
	expect 0 started nc start "${options[@]}" --config "$file"
	expect 0 stopped nc stop
}

case_server_runs_in_the_foreground_until_a_signal() {
	local pid redis
	"$program" server "${options[@]}" >"$dir/out1" 2>"$dir/err1" </dev/null &
	pid=$!
	timeout 120 sh -c "until grep -q 'serves at http://127.0.0.1:' '$dir/out1'; do :; done"
	redis=$(redis_pid)
	# It listens before all of its loops have reached Redis.
	timeout 120 sh -c "until '$program' status | grep -q '^ready: yes'; do :; done" || die "it is not ready"
	kill -TERM "$pid"
	wait "$pid" || die "it ended with $?"
	await_end "$redis"
}

case_server_runs_with_its_standard_descriptors_closed() {
	local pid

	(exec "$program" server "${options[@]}" <&- >&- 2>&-) &
	pid=$!
	given=$pid
	until_says "ready: yes" nc status
	expect 0 "nanoctrl stopped (pid=$pid)" nc stop
	wait "$pid" || die "it ended with $?"
	given=
	nc start "${options[@]}" <&- >&- 2>&- || die "start does not work so"
	expect 0 "ready: yes" nc status
	expect 0 stopped nc stop
}

# An address of this host that is not loopback, if there is one; what needs it is skipped without.
other_address() {
	other=$(hostname -I | tr ' ' '\n' | grep -m 1 -F . || true)
	[ -n "$other" ] || echo "[  SKIPPED ] ${case_name}_beyond_loopback"
}

# list_entities URL: the HTTP status.
list_entities() {
	curl -s -m 60 -o /dev/null -w '%{http_code}' -X POST "$1/list_entities" -H 'Content-Type: application/json' -d '{}'
}

case_compatible_routes_are_for_whom_the_settings_say() {
	local url other
	expect 0 started nc start "${options[@]}" --set server.compat=off
	expect 0 404 list_entities "$(field address)"
	expect 0 stopped nc stop
	other_address
	expect 0 started nc start "${options[@]}" --host 0.0.0.0 --insecure
	url=$(field address)
	expect 0 200 list_entities "http://127.0.0.1:${url##*:}"
	[ -z "$other" ] || expect 0 403 list_entities "http://$other:${url##*:}"
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}" --host 0.0.0.0 --insecure --set server.compat=open
	url=$(field address)
	[ -z "$other" ] || expect 0 200 list_entities "http://$other:${url##*:}"
	expect 0 stopped nc stop
}

case_requests_are_logged_when_asked_for() {
	local url

	expect 0 started nc start "${options[@]}"
	url=$(field address)
	for _ in 1 2 3 4 5 6 7 8; do
		expect 0 200 list_entities "$url"
	done
	! grep -q list_entities "$dir/run/nanoctrl.log" || die "requests are logged"
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}" --set log.access=true
	expect 0 200 list_entities "$(field address)"
	expect 0 /list_entities cat "$dir/run/nanoctrl.log"
	expect 0 stopped nc stop
}

# start_peer ALIAS: what the client of another control plane is told; its Redis' port.
start_peer() {
	curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' \
		-d "{\"alias\":\"$1\",\"address\":\"192.0.2.99\"}" | sed -n 's/.*"redis_address":"127.0.0.1:\([0-9]*\)".*/\1/p'
}

case_the_private_redis_listens_only_for_those_who_need_it() {
	local port other
	expect 0 started nc start "${options[@]}"
	[ "$(redis-cli -s "$dir/data/redis.sock" config get port | tail -1)" = 0 ] || die "it listens without need"
	[ ! -s "$dir/data/redis.port" ] || die "a port is kept without need"
	port=$(start_peer a)
	[ "$(cat "$dir/data/redis.port")" = "$port" ] || die "the port is not kept"
	[ -n "$port" ] || die "a client is not told where Redis is"
	expect 0 192.0.2.99 redis-cli -p "$port" hget agent:a addr
	[ "$(start_peer b)" = "$port" ] || die "another client is sent elsewhere"
	other_address
	[ -z "$other" ] || expect 1 "Connection refused" redis-cli -h "$other" -p "$port" ping
	# The port is kept: what runs finds Redis where it was.
	kill -9 "$(redis_pid)"
	timeout 100 sh -c "until redis-cli -p $port ping; do :; done" >/dev/null 2>&1 || die "it is not there again"
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}"
	[ "$(start_peer c)" = "$port" ] || die "it is elsewhere after a restart"
	expect 0 stopped nc stop
}

case_its_redis_serves_although_its_port_is_taken() {
	local port redis

	other_server
	mkdir -m 700 "$dir/data"
	echo "$port" >"$dir/data/redis.port"
	expect 0 started nc start "${options[@]}"
	expect 0 "ready: yes" nc status
	[ -z "$(start_peer a)" ] || die "a client is sent to a stranger"
	expect 0 "cannot listen on 127.0.0.1 port $port, which redis.port" cat "$dir/run/nanoctrl.log"
	redis=$(redis_pid)
	kill -9 "$redis"
	await_end "$redis"
	timeout 100 sh -c "until redis-cli -s '$dir/data/redis.sock' ping; do :; done" >/dev/null 2>&1 || die "it is not there again"
	until_says "ready: yes" nc status
	kill "$given"
	wait "$given" || true
	given=
	[ "$(start_peer a)" = "$port" ] || die "it is not tried again"
	expect 0 stopped nc stop
}

# A redis-server that listens as soon as a file is there, which is never.
make_slow_redis() {
	printf '#!/bin/sh\necho $$ >"%s"\nuntil [ -e "%s" ]; do :; done\nexec redis-server "$@"\n' \
		"$dir/slow.pid" "$dir/go" >"$dir/slow"
	chmod +x "$dir/slow"
	rm -f "$dir/slow.pid"
}

case_status_of_a_server_that_waits_for_its_redis() {
	make_slow_redis
	"$program" server "${options[@]}" --set redis.program="$dir/slow" </dev/null >"$dir/out1" 2>&1 &
	given=$!
	timeout 60 sh -c "until [ -s '$dir/slow.pid' ]; do :; done"
	expect 1 "nanoctrl is not running, or is only starting" nc status
	kill "$given"
	wait "$given" || true
	given=
}

case_a_start_that_gives_up_leaves_no_redis() {
	make_slow_redis
	expect 1 "not ready after 2000 ms" nc start "${options[@]}" --wait 2s --set redis.program="$dir/slow"
	given=$(cat "$dir/slow.pid")
	! kill -0 "$given" 2>/dev/null || die "it left its Redis"
	given=
	expect 0 "told to end before $dir/slow answered" cat "$dir/run/nanoctrl.log"
}

case_what_others_left_is_listed() {
	local key
	expect 2 "expected --dry-run" nc gc --data-dir "$dir/data"
	# Once, and at once.
	expect 1 "redis.sock: No such file or directory" nc gc --dry-run --data-dir "$dir/data" --set redis.timeout=60s
	[ "$(nc gc --dry-run --data-dir "$dir/data" 2>&1 | wc -l)" = 1 ] || die "it says more than that"
	[ "$(nc obs peers --redis-url redis://127.0.0.1:1 2>&1)" = \
		"nanoctrl: redis://127.0.0.1:1/0: Connection refused" ] || die "obs says it otherwise"
	expect 0 started nc start "${options[@]}"
	rc() {
		redis-cli -s "$dir/data/redis.sock" "$@" >/dev/null
	}
	rc hset agent:a:1 addr x
	rc hset s:agent:b addr x
	# Of agents that are there, however their names are read; and of none of these kinds.
	for key in mr:a:1:kv mr:a:1:kv:dev:1:RoCE s:mr:b:kv exchange:z:a:1:c exchange:a:1:z:c s:exchange:z:b spec:topology:a:1 \
		stream:a:1 s:inbox:b inbox:a:1 :inbox:a:1 agent:c other service:x:mr; do
		rc set "$key" x NX
	done
	# Nor keys of our own, whatever words are in them.
	rc set '{default}:nanoctrl:inbox:7' x
	rc set nanoctrl:stream:a x
	for key in mr:a:2:kv mr:b:kv exchange:y:z:w spec:topology:b s:stream:a s:inbox:a:1 :inbox:b $'mr:n\nl:kv' $'mr:\xc2\x9b\xff:kv'; do
		rc set "$key" x
	done
	nc gc --dry-run --data-dir "$dir/data" >"$dir/orphans" 2>"$dir/out" || die "$(cat "$dir/out")"
	sort "$dir/orphans" >"$dir/sorted"
	printf '%s\n' :inbox:b exchange:y:z:w mr:a:2:kv mr:b:kv 'mr:n\x0al:kv' 'mr:\xc2\x9b\xff:kv' s:inbox:a:1 s:stream:a spec:topology:b | sort >"$dir/wanted"
	cmp -s "$dir/sorted" "$dir/wanted" || die "$(diff "$dir/sorted" "$dir/wanted")"
	# Where the server keeps its data, it says itself.
	nc gc --dry-run 2>/dev/null | sort | cmp -s - "$dir/wanted" || die "not without --data-dir"
	grep -q '^nanoctrl: 9 of [0-9]* keys have no agent' "$dir/out" || die "$(cat "$dir/out")"
	expect 0 stopped nc stop
}

case_links_are_listed_and_waited_for() {
	local url lease
	expect 1 "no server runs" nc obs links
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	expect 0 "[]" nc obs links --json
	expect 1 "no agent reports a link" nc obs links --wait 0.2s
	register() {
		curl -s -m 60 -X PUT "$url/v1/agents/$1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
			"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
			sed 's/.*"lease":"\([^"]*\)".*/\1/'
	}
	# report REVISION STATE [LEASE AGENT PEER]
	report() {
		curl -sf -m 60 -X PUT "$url/v1/agents/${4:-node-a}/links/${5:-node-b}/default" -H "Slime-Lease: ${3:-$lease}" \
			-H 'Content-Type: application/json' -d "{\"revision\":$1,\"state\":\"$2\"}" >/dev/null
	}
	lease=$(register node-a)
	report 1 connecting
	expect 0 "connecting" nc obs links
	expect 1 "not all links are connected" nc obs links --wait 0.2s
	nc obs links --wait 100s --json >"$dir/waited" 2>&1 &
	report 2 connected
	expect 0 "this end has not been reported" nc obs links --address "$url"
	expect 2 "expected the URL of nanoctrl" nc obs links --address there
	expect 1 "not all links are connected" nc obs links --wait 0.2s
	report 1 connected "$(register node-b)" node-b node-a
	wait $! || die "it did not see the link"
	grep -q '"agent":"node-a","peer":"node-b","profile":"default","state":"connected"' "$dir/waited"
	expect 0 "node-b" nc obs links
	expect 0 stopped nc stop
}

# write_snapshot NAME MEMBERS CONNECTION...: as an agent would, into the given Redis.
write_snapshot() {
	local now

	now=$(redis-cli -s "$dir/given.sock" time | head -1)
	redis-cli -s "$dir/given.sock" set "obs:peer:$1" \
		"{\"peer_id\":\"$1\",$2\"reported_at_ms\":${now}000,\"summary\":{},\"connections\":[$(
			IFS=,
			echo "${*:3}"
		)]}" >/dev/null
}

case_links_are_waited_for_without_a_server() {
	local there=(--redis-url "unix://$dir/given.sock" --stale-ms 3600000) ours='"interval_ms":1000,'

	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do :; done" >/dev/null 2>&1 || die "no Redis"
	expect 1 "no agent reports a link" nc obs links "${there[@]}" --wait 100ms
	# Of agents of others alone those are waited for.
	write_snapshot theirs "" '{"peer":"x","state":"connecting"}'
	expect 1 "not all links are connected" nc obs links "${there[@]}" --wait 100ms
	write_snapshot a "$ours" '{"peer":"b","state":"connected"}' '{"peer":"gone","state":"broken"}'
	expect 1 "not all links are connected" nc obs links "${there[@]}" --wait 100ms
	# b says nothing at all: it may write no snapshots.
	write_snapshot a "$ours" '{"peer":"b","state":"connected"}'
	expect 0 "connected" nc obs links "${there[@]}" --wait 100ms
	write_snapshot b "$ours"
	expect 1 "this end has not been reported" nc obs links "${there[@]}" --wait 100ms
	write_snapshot b "$ours" '{"peer":"a","state":"connected"}'
	write_snapshot left "$ours\"status\":\"stopped\"," '{"peer":"a","state":"connected"}'
	expect 0 "connected" nc obs links "${there[@]}" --wait 100ms
	kill "$given"
	wait "$given" || true
	given=
}

# What agents say of what they do: ours by the server, others' straight from a Redis as well.
case_agents_are_observed() {
	local url lease redis=$dir/data/redis.sock now
	local patient=(--stale-ms 3600000) # on a busy machine minutes pass
	expect 1 "no server runs" nc obs status
	expect 1 "no server runs" nc top
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	expect 0 "(no obs snapshots found)" nc obs peers
	expect 0 "(no connections reported)" nc obs links
	expect 0 "Peers: 0 alive, 0 stale, 0 stopped" nc obs status
	lease=$(curl -s -m 60 -X PUT "$url/v1/agents/ours" -H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
		sed 's/.*"lease":"\([^"]*\)".*/\1/')
	curl -sf -m 60 -X PUT "$url/v1/agents/ours/snapshot" -H "Slime-Lease: $lease" -H 'Content-Type: application/json' -d '{
		"interval_ms":1000,"host":"h1","pid":11,"uptime_ms":61000,"rss_bytes":2048,"ewma_bandwidth_bps":1500.0,
		"summary":{"assign_total":7,"batch_total":5,"completed_bytes_total":2097152,"pending_ops":1,"error_total":2},
		"nics":[{"nic":"shm","assign_total":7,"completed_bytes_total":10}],"connections":[]}' >/dev/null
	expect 0 "ours  h1     11" nc obs peers
	expect 0 "Total: assign=7 batch=5 bytes=2.0MB pending=1 errors=2" nc obs status
	expect 0 "Estimated BW: 1.5Kbps (EWMA)" nc obs status --address "$url" "${patient[@]}"
	now=$(redis-cli -s "$redis" time | head -1)
	redis-cli -s "$redis" mset obs:peer:theirs '{"peer_id":"theirs","host":"h2","pid":22,"reported_at_ms":'"$((now - 7200))"'000,
		"summary":{"assign_total":18446744073709551615},"nics":[{},5],"connections":[{"peer":"x","local_nic":"mlx5_0","state":"connected"}]}' \
		obs:peer:junk '{broken' obs:peerless x default:obs:peer:d '{"peer_id":"d","status":"stopped"}' s:obs:peer:s '{"peer_id":"s"}' >/dev/null
	redis-cli -s "$redis" hset obs:peer:hash a b >/dev/null
	until_says "Peers: 1 alive, 1 stale, 1 stopped" nc obs status "${patient[@]}"
	expect 0 "Redis: unix://$redis  Scope: (none)" nc obs status --redis-url "unix://$redis"
	expect 0 "Peers: 1 alive, 1 stale, 1 stopped" nc obs status --redis-url "unix://$redis" "${patient[@]}"
	expect 0 "Peers: 0 alive, 1 stale, 0 stopped" nc obs status --redis-url "unix://$redis" --scope s
	expect 0 '"assign_total":18446744073709551615' nc obs peers --redis-url "unix://$redis" --json
	expect 0 '{"peer_id":"theirs","age_ms":' nc obs nics --redis-url "unix://$redis" --json
	expect 0 '"nic":"shm","assign_total":7,"completed_bytes_total":10,"peer_id":"ours"' nc obs nics --json
	expect 0 "theirs    mlx5_0   x         -        stale" nc obs links --redis-url "unix://$redis" "${patient[@]}"
	expect 0 "(no rails reported)" nc obs links --rails --redis-url "unix://$redis" "${patient[@]}"
	redis-cli -s "$redis" set obs:peer:theirs '{"peer_id":"theirs","reported_at_ms":'"$((now - 7200))"'000,"connections":[
		{"peer":"x","state":"connected","rails":5},{"peer":"y","profile":"p","state":"connected","rails":[7,{"state":"down","local_nic":"mlx5_0:1",
		"remote_nic":"mlx5_1:2","share":125,"completed_bytes_total":2048,"failures_total":3,"error":"its port went down","why":"by name"},{}]}]}' >/dev/null
	expect 0 "theirs    y         p           0  mlx5_0:1  mlx5_1:2  down   12.5 %  2.0KB         3  its port went down  by name" \
		nc obs links --rails --redis-url "unix://$redis" "${patient[@]}"
	expect 0 '"rails":[7,{"state":"down",' nc obs links --json --redis-url "unix://$redis" "${patient[@]}"
	expect 0 "1m  2.0KB" nc top --times 1 "${patient[@]}"
	expect 1 "nanoctrl: unix://$dir/none:" nc obs peers --redis-url "unix://$dir/none" --set redis.timeout=100ms
	"$program" top "${patient[@]}" >"$dir/top" 2>&1 </dev/null &
	given=$!
	until_says "Peers: 1 alive" cat "$dir/top"
	kill "$given"
	wait "$given" || die "$(cat "$dir/top")"
	given=
	expect 0 stopped nc stop
}

# Counters that grow by a thousand in a second, where agents of each kind have them.
case_top_counts_the_operations_of_others() {
	local second=1
	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do :; done" >/dev/null 2>&1 || die "no Redis"
	write_one() {
		redis-cli -s "$dir/given.sock" set "obs:peer:$1" "{\"peer_id\":\"$1\",\"pid\":7,\"reported_at_ms\":${second}000,$2}" >/dev/null
	}
	write_all() {
		write_one ours "\"interval_ms\":9,\"summary\":{\"post_batch_total\":${second}000,\"batch_total\":0}"
		write_one theirs "\"summary\":{\"batch_total\":0},\"nics\":[{\"post_batch_total\":${second}000},{\"post_batch_total\":${second}500}]"
		write_one old "\"summary\":{\"batch_total\":${second}500}"
		write_one silent '"summary":{}'
	}
	write_all
	"$program" top --redis-url "unix://$dir/given.sock" --every 100ms </dev/null >"$dir/top" 2>&1 &
	top=$!
	until_says "silent" cat "$dir/top"
	second=2
	write_all
	until_says " 2000 " grep theirs "$dir/top"
	until_says " 1000 " grep old "$dir/top"
	until_says " 1000 " grep ours "$dir/top"
	! grep silent "$dir/top" | grep -vE ' - +- +0 +0 *$' || die "it counts what nobody says"
	kill "$top" "$given"
	wait "$top" "$given" || true
	given=
}

case_top_on_a_terminal_ends_with_q() {
	expect 0 started nc start "${options[@]}"
	timeout 120 python3 "${SLIME_SOURCE:?}/tests/nanoctrl/top_keys.py" "$program" top --every 60s >"$dir/keys" 2>&1 ||
		die "$(cat "$dir/keys")"
	expect 0 stopped nc stop
}

case_what_agents_say_is_json_again() {
	local view

	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do :; done" >/dev/null 2>&1 || die "no Redis"
	write_snapshot one '"ewma_bandwidth_bps":1.7e308,"nics":[{"peer_id":"zz","nic":"n","age_ms":0},{}],'
	write_snapshot two '"ewma_bandwidth_bps":1.7e308,' '{"peer":"x","ewma_bandwidth_bps":1e308,"completed_bytes_total":1}'
	for view in status nics links peers; do
		nc obs "$view" --redis-url "unix://$dir/given.sock" --stale-ms 3600000 --json >"$dir/out" || die "$view: $?"
		python3 - "$dir/out" <<'END' || die "$view: $(cat "$dir/out")"
import json, sys
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)
def refuse(word):
    raise ValueError(word)
json.load(open(sys.argv[1]), object_pairs_hook=once, parse_constant=refuse)
END
	done
	expect 0 '{"nic":"n","peer_id":"one","age_ms":' nc obs nics --redis-url "unix://$dir/given.sock" --json
	kill "$given"
	wait "$given" || true
	given=
}

# Others' values are as long as they like: together more than one answer of Redis may have.
case_agents_are_observed_beside_large_values() {
	redis-server --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
	given=$!
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do :; done" >/dev/null 2>&1 || die "no Redis"
	redis-cli -s "$dir/given.sock" eval "for i = 1, 90 do redis.call('SET', 'obs:peer:' .. i, string.rep('x', 3145728)) end
		for i = 1, 40 do redis.call('SET', 'obs:peer:small' .. i, '{\"peer_id\":\"small' .. i .. '\"}') end" 0 >/dev/null
	expect 0 "Peers: 0 alive, 40 stale, 0 stopped" nc obs status --redis-url "unix://$dir/given.sock"
	kill "$given"
	wait "$given" || true
	given=
}

mapfile -t all < <(declare -F | sed -n 's/^declare -f case_//p')
for case_name in "${@:-${all[@]}}"; do
	clean
	"case_$case_name"
	echo "ok: $case_name"
done
