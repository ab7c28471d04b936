#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What options, the environment and the configuration say to nanoctrl: cli_settings.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

case_the_environment_has_the_names_of_the_original() {
	local name

	run_given_redis
	for name in NANOCTRL DLSLIME_CTRL; do
		unset NANOCTRL_RUNTIME_DIR
		export "${name}_RUNTIME_DIR=$dir/env-$name" "${name}_REDIS_URL=unix://$dir/given.sock" "${name}_RUST_LOG=debug,x=warn"
		expect 0 "log: $dir/env-$name/nanoctrl.log" nc start --port 0 --set server.drain_accept=0
		expect 0 " debug " cat "$dir/env-$name/nanoctrl.log"
		until_says "ready: yes" nc status
		expect 0 "nanoctrl stopped" nc stop
		# What is on the command line counts.
		expect 4 "not ready: Redis at" nc start --port 0 --set server.drain_accept=0 --runtime-dir "$dir/run" \
			--redis-url "unix://$dir/none.sock" --log-level error
		! grep -q " debug " "$dir/run/nanoctrl.log" || die "the environment beat the command line"
		expect 0 "nanoctrl stopped" nc stop --runtime-dir "$dir/run"
		unset "${name}_RUNTIME_DIR" "${name}_REDIS_URL" "${name}_RUST_LOG"
	done
	export NANOCTRL_RUNTIME_DIR=$dir/run
	end_given
}

# Of two names of a variable DLSlime's older one counts, and the command line before both.
case_the_first_of_two_names_of_a_variable_counts() {
	run_given_redis
	DLSLIME_CTRL_REDIS_URL="unix://$dir/none.sock" DLSLIME_CTRL_RUNTIME_DIR=$dir/never DLSLIME_CTRL_RUST_LOG=debug \
		NANOCTRL_RUST_LOG=error NANOCTRL_LOG_LEVEL=debug NANOCTRL_REDIS_URL="unix://$dir/given.sock" \
		expect 0 "log: $dir/run/nanoctrl.log" nc start "${options[@]}"
	[ ! -e "$dir/never" ] || die "the second runtime directory"
	expect 0 " debug " cat "$dir/run/nanoctrl.log"
	until_says "ready: yes" nc status
	expect 0 stopped nc stop
	# Of the level nanoctrl's own name comes first, then the older one of theirs.
	rm "$dir/run/nanoctrl.log"
	NANOCTRL_RUST_LOG=error DLSLIME_CTRL_RUST_LOG=debug expect 0 started nc start "${options[@]}"
	! grep -q " debug " "$dir/run/nanoctrl.log" || die "the second name of the level"
	expect 0 stopped nc stop
	end_given
}

case_a_password_is_nowhere_to_be_read() {
	expect 4 "not ready" nc start --port 0 --set server.drain_accept=0 --redis-url redis://me:hidden-word@127.0.0.1:1/0
	local pid
	pid=$(field pid)
	! grep -aq hidden-word "/proc/$pid/cmdline" || die "ps shows it"
	! grep -rq hidden-word "$dir/run" || die "a file has it"
	expect 0 stopped nc stop
}

case_wrong_words_and_values_are_refused() {
	expect 2 "nanoctrl: --port: expected a port" nc start --port 99999
	expect 2 "server.port" nc start --set server.port=x
	expect 2 "Usage: nanoctrl COMMAND" nc
	expect 2 "nanoctrl: expected a command before --port, as in nanoctrl start --port" nc --port 0
	# Their clients take it apart at its colon, and fail where there is none, or more.
	for word in foo 10.1.2.3 redis://10.1.2.3:6379 '[::1]:6379' $'a\tb:1' a:0; do
		expect 2 "nanoctrl: --redis-public-address: expected HOST:PORT" nc start --redis-public-address "$word"
	done
	REDIS_PUBLIC_ADDRESS=10.1.2.3 expect 2 "environment variable REDIS_PUBLIC_ADDRESS: expected HOST:PORT" nc start "${options[@]}"
	expect 1 "nanoctrl: --host: expected a loopback address" nc start --host 0.0.0.0
	expect 2 "nanoctrl: --redis-url: expected a Redis URL: it begins with none of" nc start --redis-url foo
	mkdir -m 777 "$dir/shared"
	expect 1 "$dir/shared: another user owns it, or may write into it: be its owner, or ask a server by --address" \
		nc obs links --runtime-dir "$dir/shared"
	expect 0 "Usage: nanoctrl obs COMMAND" nc obs --help
	grep -q '^  obs links ' "$dir/out" || die "not its commands"
	! grep -q '^  start ' "$dir/out" || die "other commands"
	expect 2 "expected one of status, peers, nics, links" nc obs
	printf 'version: 1\nserver:\n  prot: 1\n' >"$dir/bad.yaml"
	expect 2 "bad.yaml:3:3: " nc start --config "$dir/bad.yaml"
	expect 2 "missing.yaml" nc start --config "$dir/missing.yaml"
	expect 2 "lease.beat: expected at most half of lease.ttl" nc start "${options[@]}" --set lease.ttl=4s
	expect 2 "HOST:PORT" nc start --port 0 --redis-advertise redis.example:99999
	expect 2 "HOST:PORT" nc start --port 0 --redis-advertise redis.example:0
	expect 2 "expected a Redis URL" nc start --port 0 --redis-url http://127.0.0.1
	expect 1 "cannot run /nonexistent/redis: No such file or directory: install it, or give yours with --redis-url" nc start "${options[@]}" --set redis.program=/nonexistent/redis
	expect 2 "expected an absolute path" nc start --port 0 --data-dir relative
	expect 1 "the name of the data directory is longer than" nc start --port 0 --data-dir "$dir/$(printf '%0100d' 0)"
	expect 1 "$dir/a?b has a question mark" nc start --port 0 --data-dir "$dir/a?b"
	[ ! -e "$dir/run/nanoctrl.pid" ] || die "something was started"
}

# list_agents URL: the HTTP status.
list_agents() {
	curl -s -m 60 -o /dev/null -w '%{http_code}' "$1/v1/agents"
}

case_requests_are_logged_when_asked_for() {
	local url

	expect 0 started nc start "${options[@]}"
	url=$(field address)
	for _ in 1 2 3 4 5 6 7 8; do
		expect 0 200 list_agents "$url"
	done
	! grep -q /v1/agents "$dir/run/nanoctrl.log" || die "requests are logged"
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}" --set log.access=true
	expect 0 200 list_agents "$(field address)"
	until_says /v1/agents cat "$dir/run/nanoctrl.log"
	expect 0 stopped nc stop
}

# ask_for_nothing URL N: so often, in lines of the log that are long; prints how often it was 404.
ask_for_nothing() {
	curl -s -m 100 -o /dev/null -w '%{http_code}\n' "$1/$(printf '%0900d' 0)?[1-$2]" | grep -c '^404$'
}

# From what somebody read of the log.
dropped_lines() {
	awk '/ warn log: [0-9]+ lines were dropped/ { n += $4 } END { print n + 0 }' "$dir/read"
}

case_a_log_that_nobody_reads_holds_no_request_up() {
	local fifo=$dir/fifo reader url written

	mkfifo "$fifo"
	exec 9<>"$fifo"
	expect 0 started nc start "${options[@]}" --log-file "$fifo" --set log.access=true
	url=$(field address)
	expect 0 2000 ask_for_nothing "$url" 2000
	expect 0 200 list_agents "$url"
	grep -q '^nanoctrl_log_dropped_total [1-9]' <<<"$(curl -s -m 60 "$url/metrics")" || die "no line was dropped"
	cat "$fifo" >"$dir/read" 9>&- &
	reader=$!
	exec 9>&-
	expect 0 stopped nc stop
	wait "$reader"
	written=$(grep -cE ' info access: [0-9a-f]{24} 127.0.0.1 GET /0{900} 404 [0-9]+ us$' "$dir/read")
	[ "$written" -ge 1000 ] || die "only $written lines"
	[ $((written + $(dropped_lines))) -ge 2000 ] || die "$written lines, and not all others were said to be dropped"
	expect 0 'info nanoctrl: stopped' cat "$dir/read"
}

case_a_log_that_is_rotated_has_all_requests() {
	local log=$dir/run/nanoctrl.log url

	expect 0 started nc start "${options[@]}" --set log.access=true
	url=$(field address)
	expect 0 20 ask_for_nothing "$url" 20
	mv "$log" "$log.1"
	expect 0 20 ask_for_nothing "$url" 20
	kill -HUP "$(field pid)"
	wait_for test -e "$log"
	expect 0 20 ask_for_nothing "$url" 20
	expect 0 stopped nc stop
	expect 0 60 grep -ch ' info access: .* GET /0* 404 ' <(cat "$log.1" "$log")
}

# whose_outcome_is_unknown URL ID: a request that Redis has when it dies.
whose_outcome_is_unknown() {
	local url=$1 id=$2 asker

	kill -STOP "$given"
	curl -s -m 60 -o "$dir/unknown" -X PUT "$url/v1/agents/a?order=1" -H "X-Request-Id: $id" -H 'Content-Type: application/json' -d '{
		"incarnation":"one","owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' &
	asker=$!
	wait_for is_in_flight "$url"
	kill -KILL "$given"
	wait "$asker"
	expect 0 "\"outcome\":\"unknown\",\"request_id\":\"$id\"" cat "$dir/unknown"
}

# Beside the request that asks.
is_in_flight() {
	grep -q '^nanoctrl_http_requests_in_flight 2$' <<<"$(curl -s -m 60 "$1/metrics")"
}

case_log_lines_of_a_request_have_its_id() {
	local log=$dir/run/nanoctrl.log url

	give_redis
	expect 0 started nc start "${options[@]}" --redis-url "unix://$dir/given.sock" --set log.access=true --set log.format=json
	url=$(field address)
	curl -s -m 60 -o "$dir/agents" "$url/v1/agents" -H 'X-Request-Id: asked.1'
	wait_for grep -q '"part":"access","request_id":"asked.1","message":"asked.1 ' "$log"
	curl -s -m 60 -o "$dir/agents" "$url/v1/agents"
	wait_for grep -Eq '"request_id":"([0-9a-f]{24})","message":"\1 ' "$log"
	whose_outcome_is_unknown "$url" asked.2
	expect 0 '"level":"error","part":"http","request_id":"asked.2","message":"asked.2: PUT /v1/agents/a: 503 unavailable: ' cat "$log"
	! grep '"part":"redis"' "$log" | grep request_id || die "a line of no request has one"
	expect 0 stopped nc stop
	wait "$given" || true
	given=
}

run_cases "$@"
