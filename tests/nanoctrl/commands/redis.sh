#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Redis of nanoctrl's own, and one that it is given: cli_redis.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

case_keeps_its_state_private() {
	expect 0 started nc start "${options[@]}"
	! grep -q warning "$dir/out" || die "it says that its own Redis is not there"
	[ "$(stat -c %a "$dir/data")" = 700 ] || die "others may look into the data directory"
	[ "$(stat -c %a "$dir/data/redis.sock")" = 600 ] || die "others may speak to Redis"
	expect 0 "always" private_redis config get appendfsync
	expect 0 "noeviction" private_redis config get maxmemory-policy
	# Everything is in its log: it never writes a copy of all beside that.
	[ "$(private_redis config get save)" = save ] || die "it saves copies of its data"
	expect 0 stopped nc stop
}

case_a_killed_server_is_replaced_and_its_redis_adopted() {
	expect 0 started nc start "${options[@]}"
	local pid redis
	pid=$(field pid)
	redis=$(redis_pid)
	private_redis set kept yes >/dev/null
	kill -9 "$pid"
	await_end "$pid"
	expect 1 "not running" nc status
	expect 0 started nc start "${options[@]}"
	[ "$(redis_pid)" = "$redis" ] || die "another redis-server runs"
	[ "$(private_redis get kept)" = yes ] || die "its data is gone"
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
	expect 0 started nc start "${options[@]}" --runtime-dir "$dir/second" --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$dir/data/redis.sock"
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

# What scripts wrote is a transaction in the log of Redis, which it reads back with the rights of its default user.
case_a_redis_that_dies_is_started_again() {
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	local redis url
	redis=$(redis_pid)
	url=$(field address)
	private_redis set kept yes >/dev/null
	curl -sf -m 60 -X PUT "$url/v1/agents/node-a?order=1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' >/dev/null
	kill -9 "$redis"
	wait_for sh -c "! grep -q '^$redis ' '$dir/data/redis.pid'"
	wait_for private_redis ping
	wait_for curl -sf -m 60 "$url/readyz"
	[ "$(private_redis get kept)" = yes ] || die "its data is gone"
	expect 0 '"incarnation":"one"' curl -s -m 60 "$url/v1/agents/node-a"
	expect 0 stopped nc stop
}

case_a_data_directory_has_one_owner() {
	expect 0 started nc start "${options[@]}"
	expect 1 "another nanoctrl owns the data directory $dir/data: name another one with --data-dir" nc start "${options[@]}" --runtime-dir "$dir/second"
	expect 0 "ready: yes" nc status
	expect 0 stopped nc stop
}

case_directories_are_private_also_with_a_slash_at_their_end() {
	expect 0 started nc start "${options[@]}" --data-dir "$dir/data//" --runtime-dir "$dir/run/"
	[ "$(stat -c %a "$dir/data" "$dir/run" | sort -u)" = 700 ] || die "others may look into them"
	expect 0 "data: $dir/data" nc status
	expect 0 stopped nc stop
}

case_a_process_of_redis_that_cannot_be_noted_is_said() {
	mkdir -m 700 "$dir/data"
	mkdir "$dir/data/redis.pid"
	expect 1 "nanoctrl: private Redis: $dir/data/redis.pid: Is a directory" nc start "${options[@]}"
	! private_redis ping >/dev/null 2>&1 || die "it left its Redis"
}

case_without_its_redis_it_is_not_ready_until_it_comes() {
	local url
	expect 4 "not ready: Redis at unix://$dir/given.sock does not serve: " nc start --port 0 --set server.drain_accept=0 \
		--redis-url "unix://$dir/given.sock"
	url=$(field address)
	expect 4 "ready: no (Redis at unix://$dir/given.sock does not serve: " nc status
	expect 0 " 503 " curl -si -m 60 "$url/v1/agents"
	expect 0 '"status":"ok"' curl -s -m 60 "$url/readyz?local=1"
	run_given_redis
	wait_for curl -sf -m 60 "$url/readyz"
	expect 0 "ready: yes" nc status
	# Ready means that whichever loop takes a connection can answer it.
	for _ in 1 2 3 4 5 6 7 8; do
		expect 0 '"agents":[]' curl -s -m 60 "$url/v1/agents"
	done
	expect 0 stopped nc stop
	kill -0 "$given" || die "it ended a Redis that is not its own"
	end_given
}

case_a_node_of_a_redis_cluster_is_used_as_such_only() {
	# shellcheck disable=SC2034 # redis_at_a_port sets it
	local port

	redis_at_a_port --cluster-port --port 0 --unixsocket "$dir/given.sock" --save '' --dir "$dir" --cluster-enabled yes --bind 127.0.0.1
	timeout 60 sh -c "until redis-cli -s '$dir/given.sock' ping; do kill -0 $given || exit 1; sleep 0.02; done" >/dev/null 2>&1 ||
		die "no Redis: $(cat "$dir/other")"
	expect 4 "not ready: Redis at unix://$dir/given.sock does not serve: it is a node of a Redis Cluster, which is given as redis+cluster://" nc start --port 0 --set server.drain_accept=0 \
		--redis-url "unix://$dir/given.sock"
	expect 4 "ready: no (Redis at unix://$dir/given.sock does not serve: it is a node of a Redis Cluster" nc status
	expect 0 " 503 " curl -si -m 60 "$(field address)/v1/agents"
	expect 0 "it is a node of a Redis Cluster" cat "$dir/run/nanoctrl.log"
	[ "$(redis-cli -s "$dir/given.sock" dbsize)" = 0 ] || die "it wrote there"
	expect 0 stopped nc stop
	end_given
}

case_the_private_redis_serves_nobody_else_unless_told_to() {
	local rights

	expect 0 started nc start "${options[@]}"
	[ "$(stat -c %a "$dir/data/redis.key" "$dir/data/redis.acl" | sort -u)" = 600 ] || die "others may read its password"
	[ "$(private_redis config get port | tail -1)" = 0 ] || die "it listens"
	rights=$(rights_of_others)
	[[ "$rights" = "off "* ]] || die "others are accepted: $rights"
	expect 0 NOAUTH redis-cli -s "$dir/data/redis.sock" ping
	! grep -rqF "$(cat "$dir/data/redis.key")" "$dir/run" "$dir/data/redis.log" "/proc/$(redis_pid)/cmdline" || die "the password is to be read"
	expect 0 stopped nc stop
}

case_a_redis_that_does_not_know_the_password_is_replaced() {
	local redis

	expect 0 started nc start "${options[@]}"
	redis=$(redis_pid)
	private_redis set kept yes >/dev/null
	kill -9 "$(field pid)"
	rm "$dir/data/redis.key"
	expect 0 started nc start "${options[@]}"
	await_end "$redis"
	[ "$(private_redis get kept)" = yes ] || die "its data is gone"
	expect 0 "does not accept the password in redis.key" cat "$dir/run/nanoctrl.log"
	expect 0 stopped nc stop
	chmod 644 "$dir/data/redis.key"
	expect 1 "$dir/data/redis.key: others than its owner may use it" nc start "${options[@]}"
	echo word >"$dir/data/redis.key"
	chmod 600 "$dir/data/redis.key"
	expect 1 "$dir/data/redis.key: it is not the password of a private Redis" nc start "${options[@]}"
}

case_the_memory_of_the_private_redis_has_a_limit() {
	expect 0 started nc start "${options[@]}"
	[ "$(private_redis config get maxmemory | tail -1)" = 1073741824 ] || die "it has no limit"
	kill -9 "$(field pid)"
	expect 0 started nc start "${options[@]}" --set redis.max_memory=64MiB
	[ "$(private_redis config get maxmemory | tail -1)" = 67108864 ] || die "one that is adopted keeps the former limit"
	kill -9 "$(redis_pid)"
	wait_for private_redis ping
	[ "$(private_redis config get maxmemory | tail -1)" = 67108864 ] || die "one that is started again has no limit"
	expect 0 stopped nc stop
}

case_a_redis_that_refuses_writes_is_said() {
	local url

	give_redis
	expect 0 started nc start --port 0 --set server.drain_accept=0 --redis-url "unix://$dir/given.sock"
	url=$(field address)
	metric_is writable 1 || die "it says that nothing can be written"
	redis-cli -s "$dir/given.sock" config set maxmemory 1 >/dev/null
	until_says "warning: Redis refuses writes" nc status
	expect 0 "ready: yes" nc status
	expect 0 '{"status":"ok","warnings":["Redis refuses writes' curl -s -m 60 "$url/readyz"
	expect 0 "warn reaper: Redis refuses writes: OOM" cat "$dir/run/nanoctrl.log"
	metric_is writable 0 || die "it says that it can write"
	redis-cli -s "$dir/given.sock" config set maxmemory 0 >/dev/null
	wait_for metric_is writable 1
	is_quiet || die "it warns of what is mended: $(nc status)"
	expect 0 "Redis takes writes again" cat "$dir/run/nanoctrl.log"
	[ "$(grep -c "Redis refuses writes: " "$dir/run/nanoctrl.log")" = 1 ] || die "the log does not say it once"
	expect 0 stopped nc stop
	end_given
}

# A redis-server that listens as soon as a file is there, which is never.
make_slow_redis() {
	printf '#!/bin/sh\necho $$ >"%s"\nuntil [ -e "%s" ]; do sleep 0.02; done\nexec redis-server "$@"\n' \
		"$dir/slow.pid" "$dir/go" >"$dir/slow"
	chmod +x "$dir/slow"
	rm -f "$dir/slow.pid"
}

case_status_of_a_server_that_waits_for_its_redis() {
	make_slow_redis
	"$program" server "${options[@]}" --set redis.program="$dir/slow" </dev/null >"$dir/out1" 2>&1 &
	given=$!
	wait_for test -s "$dir/slow.pid"
	expect 1 "nanoctrl is not running, or is only starting" nc status
	end_given
}

case_a_start_that_gives_up_leaves_no_redis() {
	make_slow_redis
	expect 1 "not ready after 2000 ms" nc start "${options[@]}" --wait 2s --set redis.program="$dir/slow"
	given=$(cat "$dir/slow.pid")
	! kill -0 "$given" 2>/dev/null || die "it left its Redis"
	given=
	expect 0 "told to end before $dir/slow answered" cat "$dir/run/nanoctrl.log"
}

run_cases "$@"
