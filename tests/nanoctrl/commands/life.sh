#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl start, status and stop with real processes: cli_life.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

# Of a server that does not run, status asks at the port of the settings. Nobody listens at port 1.
nobody=(--set server.port=1)

case_starts_once_and_stops_twice() {
	expect 1 "not running" nc status "${nobody[@]}"
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

case_a_stale_pid_file_names_a_stranger() {
	mkdir -p "$dir/run"
	chmod 700 "$dir/run"
	# The pid of a process that lives, in a file that nobody locks.
	printf '%d\nslime-pid/2:1:%s\nhttp://127.0.0.1:1\n' $$ "$(cat /proc/sys/kernel/random/boot_id)" >"$dir/run/nanoctrl.pid"
	expect 1 "not running" nc status "${nobody[@]}"
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
	wait_for test -e "$dir/run/nanoctrl.meta.json"
	expect 1 "cannot find the process that holds $dir/run/nanoctrl.pid: it is no pid file of ours" nc stop
	[ -e "$dir/run/nanoctrl.meta.json" ] || die "it took a file of whoever that is"
	expect 1 "cannot find the process that holds $dir/run/nanoctrl.pid" nc status
	end_given
	expect 0 "not running" nc stop
}

case_a_port_in_use_is_said() {
	local port

	other_server
	expect 1 "cannot listen on 127.0.0.1 port $port: Address already in use" nc start "${options[@]}" --port "$port"
	expect 1 "log: $dir/run/nanoctrl.log" nc start "${options[@]}" --port "$port"
	nc start "${options[@]}" --port "$port" >"$dir/out" 2>/dev/null && die "it started"
	grep -q "^recent log:" "$dir/out" || die "the recent log is not where the original has it"
	expect 1 "port 0 or $port: Address already in use" nc start "${options[@]}" --second-port "$port"
	[ ! -e "$dir/data/redis.pid" ] || die "it left a Redis"
	# It answers, but is none.
	expect 1 "health: down (" nc status --address "http://127.0.0.1:$port"
	end_given
}

case_a_nanoctrl_that_nobody_here_knows_is_left_alone() {
	local port

	expect 0 started nc start "${options[@]}"
	port=$(field address)
	port=${port##*:}
	NANOCTRL_RUNTIME_DIR='' XDG_RUNTIME_DIR=$dir/xdg expect 0 \
		"nanoctrl appears to be already running at http://127.0.0.1:$port (no pid file managed by this CLI)" nc start --port "$port"
	expect 1 "nanoctrl: it was not started with this --data-dir: choose another --port, or stop it" \
		env NANOCTRL_RUNTIME_DIR='' XDG_RUNTIME_DIR="$dir/xdg" "$program" start --port "$port" --data-dir "$dir/data2"
	expect 1 "nanoctrl: it was not started with this --runtime-dir" nc start --port "$port" --runtime-dir "$dir/second"
	[ ! -e "$dir/data2/redis.pid" ] || die "it left a Redis"
	expect 1 "nanoctrl is not running (no pid file)" nc status --runtime-dir "$dir/second" "${nobody[@]}"
	expect 1 "health: ok" nc status --runtime-dir "$dir/second" --address "http://127.0.0.1:$port"
	expect 1 "health: ok" nc status --runtime-dir "$dir/second" --address "127.0.0.1:$port"
	expect 0 stopped nc stop
}

# Whose options the server that runs does not have would believe that it has.
case_a_start_that_asks_for_something_else_than_runs_fails() {
	local port

	expect 0 started nc start "${options[@]}"
	port=$(field address)
	port=${port##*:}
	expect 1 "nanoctrl: it was started otherwise: its data directory is $dir/data, not $dir/data2; stop it first" \
		nc start --port 0 --data-dir "$dir/data2"
	expect 1 "its Redis is a private one, not redis://127.0.0.1:1/0" nc start --port 0 --redis-url redis://127.0.0.1:1
	expect 1 "its port is $port, not 1" nc start --port 1 --data-dir "$dir/data"
	expect 0 "already running" nc start --port "$port" --data-dir "$dir/data/"
	expect 0 "already running" nc start
	expect 0 stopped nc stop
	expect 4 "ready: Redis at redis://127.0.0.1:1/0 does not serve" nc start --port 0 --set server.drain_accept=0 --redis-url redis://127.0.0.1:1
	expect 1 "its Redis is redis://127.0.0.1:1/0, not redis://127.0.0.1:2/0" nc start --port 0 --redis-url redis://127.0.0.1:2
	expect 1 "its Redis is redis://127.0.0.1:1/0, not a private one" nc start --port 0 --data-dir "$dir/data"
	expect 0 "already running" nc start --port 0 --redis-url redis://127.0.0.1:1
	expect 0 stopped nc stop
}

# A server of DLSlime's, as far as others see it: its name, what it answers, and a pid file that it does not lock.
run_original() {
	local python home

	[ -d "$dir/run" ] || mkdir -m 700 "$dir/run"
	python=$(python3 -c 'import sys; print(sys.executable)') # python3 itself may be a script
	home=$(python3 -c 'import sys; print(sys.prefix)')
	(export PYTHONHOME=$home && exec -a "$dir/bin/nanoctrl" "$python" -c '
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
	def do_GET(self):
		body = b"NanoCtrl Server Running" if self.path == "/" else b""
		self.send_response(200 if body else 404)
		self.send_header("Content-Length", str(len(body)))
		self.end_headers()
		self.wfile.write(body)
s = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(s.server_port, flush=True)
s.serve_forever()' >"$dir/original" 2>/dev/null) &
	given=$!
	wait_for test -s "$dir/original"
	port=$(cat "$dir/original")
	printf %d "$given" >"$dir/run/nanoctrl.pid"
	printf '{"pid":%d,"address":"http://127.0.0.1:%d","cmd":["nanoctrl","server"],"log":"/its.log"}' "$given" "$port" \
		>"$dir/run/nanoctrl.meta.json"
}

case_an_original_in_the_same_runtime_directory_is_known() {
	local port

	run_original
	nc status >"$dir/out" || die "it does not run"
	like "$dir/out" "pid: $given" 'process: running' "address: http://127.0.0.1:$port" 'health: ok' 'log: /its.log' \
		"note: it is a server of DLSlime's"
	expect 0 "nanoctrl is already running (pid=$given)" nc start
	expect 1 "it was not started with this --data-dir" nc start "${options[@]}"
	kill -STOP "$given"
	expect 1 "Error: nanoctrl did not stop within 0.2s; rerun with --force" nc stop --timeout 0.2
	[ -e "$dir/run/nanoctrl.meta.json" ] || die "it took the files of a server that runs"
	expect 0 "nanoctrl killed (pid=$given)" nc stop --timeout 0.2 --force
	[ ! -e "$dir/run/nanoctrl.meta.json" ] || die "the meta file of the killed one is left"
	rm "$dir/original"
	run_original
	expect 0 "nanoctrl stopped (pid=$given)" nc stop
	given=
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "its pid file is left"
	[ ! -e "$dir/run/nanoctrl.meta.json" ] || die "its meta file is left"
	# A pid that is another process's by now is nobody to signal.
	printf %d $$ >"$dir/run/nanoctrl.pid"
	expect 1 "not running" nc status "${nobody[@]}"
	expect 0 "nanoctrl is not running (stale pid file cleaned)" nc stop
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "the stale pid file is left"
}

case_it_says_what_the_original_says() {
	local pid

	nc start "${options[@]}" >"$dir/out" || die "it does not start"
	like "$dir/out" 'Local node IP: 127\.0\.0\.1' '' 'nanoctrl started \(pid=[0-9]+\)' 'address: http://127\.0\.0\.1:[0-9]+' \
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
	nc status "${nobody[@]}" >"$dir/out" && die "it runs"
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
	nc status "${nobody[@]}" >"$dir/out" && die "it runs"
	like "$dir/out" "pid: $pid" 'process: not running' 'address: http://.*' 'health: down .*' "log: $dir/run/nanoctrl.log"
	expect 0 "nanoctrl is not running (stale pid file cleaned)" nc stop
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "it is not cleaned"
	expect 0 "nanoctrl 0." nc --version
	expect 0 "nanoctrl 0." nc version
	expect 0 "Usage: nanoctrl stop" nc help stop
}

case_a_second_port_serves_the_same() {
	local port

	hold_port
	expect 0 started nc start "${options[@]}" --second-port "$port"
	[ "$(field address)" != "http://127.0.0.1:$port" ] || die "it has one port only"
	expect 0 "NanoCtrl Server Running" curl -s -m 60 "http://127.0.0.1:$port/"
	expect 0 "NanoCtrl Server Running" curl -s -m 60 "$(field address)/"
	expect 0 stopped nc stop
	! curl -s -m 60 "http://127.0.0.1:$port/" || die "the second port is left"
	end_given
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
	expect 1 "not running" nc status "${nobody[@]}"
}

case_metrics_are_those_of_all_its_parts() {
	local name pid rss said

	expect 0 started nc start "${options[@]}"
	pid=$(field pid)
	curl -s -m 60 "$(field address)/metrics" >"$dir/metrics"
	rss=$(($(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$pid/status") * 1024))
	said=$(sed -n 's/^process_resident_memory_bytes //p' "$dir/metrics")
	# It is another one a moment later.
	[ "$said" -gt $((rss / 2)) ] || die "it says $said and has $rss bytes"
	[ "$said" -lt $((rss * 2)) ] || die "it says $said and has $rss bytes"
	for name in http_connections busy_poll_seconds_total store_calls_total model_junk_total sessions; do
		expect 0 "nanoctrl_$name " cat "$dir/metrics"
	done
	# Each is of a type that is said before it.
	awk '/^# TYPE / { type[$3] = $4 }
		!/^#/ { sub(/[{ ].*/, ""); part = $0; sub(/_(bucket|sum|count)$/, "", part)
			if (type[$0] == "" && type[part] != "histogram") { print "no type: " $0; bad = 1 } }
		END { exit bad }' "$dir/metrics" || die "what is that?"
	expect 0 stopped nc stop
}

case_server_runs_in_the_foreground_until_a_signal() {
	local pid redis
	"$program" server "${options[@]}" >"$dir/out1" 2>"$dir/err1" </dev/null &
	pid=$!
	wait_for grep -q 'serves at http://127.0.0.1:' "$dir/out1"
	redis=$(redis_pid)
	# It listens before all of its loops have reached Redis.
	until_says "ready: yes" nc status "${nobody[@]}"
	kill -TERM "$pid"
	wait "$pid" || die "it ended with $?"
	await_end "$redis"
}

case_server_runs_with_its_standard_descriptors_closed() {
	local pid

	(exec "$program" server "${options[@]}" <&- >&- 2>&-) &
	pid=$!
	given=$pid
	until_says "ready: yes" nc status "${nobody[@]}"
	expect 0 "nanoctrl stopped (pid=$pid)" nc stop
	wait "$pid" || die "it ended with $?"
	given=
	nc start "${options[@]}" <&- >&- 2>&- || die "start does not work so"
	expect 0 "ready: yes" nc status
	expect 0 stopped nc stop
}

run_cases "$@"
