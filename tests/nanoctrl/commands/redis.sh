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

# start_peer ALIAS: what the client of another control plane is told; its Redis' port.
start_peer() {
	curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' \
		-d "{\"alias\":\"$1\",\"address\":\"192.0.2.99\"}" | sed -n 's/.*"redis_address":"127.0.0.1:\([0-9]*\)".*/\1/p'
}

# The rights of those who give no password.
rights_of_others() {
	private_redis acl list | sed -n 's/^user default //p'
}

case_the_private_redis_serves_nobody_else_unless_told_to() {
	local route said="set redis.compat_port"

	expect 0 started nc start "${options[@]}"
	[ "$(stat -c %a "$dir/data/redis.key" "$dir/data/redis.acl" | sort -u)" = 600 ] || die "others may read its password"
	expect 0 "$said" curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' -d '{"alias":"a","address":"127.0.0.1"}'
	expect 0 "$said" curl -s -m 60 -X POST "$(field address)/get_redis_address" -H 'Content-Type: application/json' -d '{}'
	for route in start_peer_agent get_redis_address; do
		[ "$(curl -s -m 60 -o "$dir/out" -w '%{http_code}' -X POST "$(field address)/$route" -H 'Content-Type: application/json' -d '{"address":"x"}')" = 409 ] ||
			die "$route is not refused"
	done
	[ "$(private_redis config get port | tail -1)" = 0 ] || die "it listens"
	[[ "$(rights_of_others)" = "off "* ]] || die "others are let in: $(rights_of_others)"
	expect 0 NOAUTH redis-cli -s "$dir/data/redis.sock" ping
	! grep -rqF "$(cat "$dir/data/redis.key")" "$dir/run" "$dir/data/redis.log" "/proc/$(redis_pid)/cmdline" || die "the password is to be read"
	expect 0 stopped nc stop
}

case_the_private_redis_listens_only_for_those_who_need_it() {
	local port other
	expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	[ "$(private_redis config get port | tail -1)" = 0 ] || die "it listens without need"
	[ ! -s "$dir/data/redis.port" ] || die "a port is kept without need"
	port=$(start_peer a)
	[ "$(cat "$dir/data/redis.port")" = "$port" ] || die "the port is not kept"
	[ -n "$port" ] || die "a client is not told where Redis is"
	expect 0 192.0.2.99 redis-cli -p "$port" hgetall agent:a
	[ "$(start_peer b)" = "$port" ] || die "another client is sent elsewhere"
	other_address
	[ -z "$other" ] || expect 1 "Connection refused" redis-cli -h "$other" -p "$port" ping
	# The port is kept: what runs finds Redis where it was.
	kill -9 "$(redis_pid)"
	wait_for redis-cli -p "$port" ping
	expect 0 stopped nc stop
	expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	[ "$(start_peer c)" = "$port" ] || die "it is elsewhere after a restart"
	# Told otherwise, it serves nobody else, also where the same Redis goes on.
	kill -9 "$(field pid)"
	expect 0 started nc start "${options[@]}"
	grep -q adopted "$dir/run/nanoctrl.log" || die "another Redis runs"
	expect 1 "Connection refused" redis-cli -p "$port" ping
	[[ "$(rights_of_others)" = "off "*" -@all" ]] || die "others may do $(rights_of_others)"
	expect 0 stopped nc stop
}

case_the_private_redis_listens_where_it_is_told_to() {
	local port

	hold_port
	expect 0 started nc start "${options[@]}" --set redis.compat_port="$port"
	wait_for redis-cli -p "$port" ping
	[ "$(start_peer a)" = "$port" ] || die "a client is sent elsewhere"
	[ ! -e "$dir/data/redis.port" ] || die "the port of the settings is kept"
	expect 0 stopped nc stop
	end_given
}

# What the agents of dlslime 0.1.23 send, and nothing that is nanoctrl's own.
case_agents_of_others_may_do_what_they_need() {
	local port scope command

	expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	port=$(start_peer a)
	others() {
		timeout 60 redis-cli -p "$port" "$@" >"$dir/out" 2>&1 || true
	}
	for scope in "" team: n: nan: nanoctrl2: na-noctrl: x:y:; do
		for command in "hset ${scope}agent:a memory_keys []" "hgetall ${scope}agent:a" "ttl ${scope}agent:a" \
			"set ${scope}exchange:a:b:c x" "get ${scope}exchange:a:b:c" "set ${scope}mr:a:kv x" "get ${scope}mr:a:kv" \
			"set ${scope}obs:peer:a x" "pexpire ${scope}obs:peer:a 1000" "del ${scope}spec:topology:a ${scope}mr:a:kv ${scope}inbox:a" \
			"xadd ${scope}stream:b maxlen ~ 1000 * type qp_ready" "xread count 1 streams ${scope}stream:b 0-0" \
			"blpop ${scope}inbox:a 0.01" "scan 0 match ${scope}agent:* count 200"; do
			# shellcheck disable=SC2086 # words
			others $command
			! grep -q NOPERM "$dir/out" || die "$command: $(cat "$dir/out")"
		done
	done
	others blpop :inbox:a 0.01
	! grep -q NOPERM "$dir/out" || die "$(cat "$dir/out")"
	private_redis set '{default}:nanoctrl:agent:6:node-a' x >/dev/null
	for command in flushall "config set dir /tmp" "config get port" "acl list" "acl whoami" "keys x" "client list" "client kill type normal" \
		"shutdown nosave" "save" "monitor" "eval return 0" "script flush" "module list" "publish a b" "psubscribe *" \
		"get {default}:nanoctrl:agent:6:node-a" "set {default}:nanoctrl:inbox:7 x" "del nanoctrl:run" "set nanoctrl:agent:x y" \
		"set nanoctrl:peers:agent:x y" "del {agent:}:nanoctrl:stream:x" "set service:x y" "del agent:x nanoctrl:schema"; do
		# shellcheck disable=SC2086
		others $command
		grep -q NOPERM "$dir/out" || die "$command is not refused: $(cat "$dir/out")"
	done
	expect 0 "ready: yes" nc status
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

case_its_redis_serves_although_its_port_is_taken() {
	local port redis

	other_server
	mkdir -m 700 "$dir/data"
	echo "$port" >"$dir/data/redis.port"
	expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	expect 0 "ready: yes" nc status
	[ -z "$(start_peer a)" ] || die "a client is sent to a stranger"
	expect 0 "cannot listen on 127.0.0.1 port $port, which redis.compat_port or the file redis.port" cat "$dir/run/nanoctrl.log"
	redis=$(redis_pid)
	kill -9 "$redis"
	await_end "$redis"
	wait_for private_redis ping
	until_says "ready: yes" nc status
	end_given
	[ "$(start_peer a)" = "$port" ] || die "it is not tried again"
	expect 0 stopped nc stop
}

metric_is() {
	[ "$(curl -sf -m 60 "$(field address)/metrics" | sed -n "s/^nanoctrl_store_$1 //p")" = "$2" ]
}

is_quiet() {
	nc status >"$dir/status" && ! grep -q '^warning: ' "$dir/status"
}

case_a_redis_that_refuses_config_is_said() {
	local url

	give_redis
	redis-cli -s "$dir/given.sock" acl setuser default -config >/dev/null
	expect 0 started nc start --port 0 --set server.drain_accept=0 --redis-url "unix://$dir/given.sock"
	url=$(field address)
	until_says "warning: Redis does not tell of keys that others write, since it refuses CONFIG" nc status
	expect 0 "ready: yes" nc status
	expect 0 '{"status":"ok","warnings":["Redis does not tell of keys' curl -s -m 60 "$url/readyz"
	expect 0 "Redis does not tell of keys that others write (NOPERM" cat "$dir/run/nanoctrl.log"
	metric_is told 0 || die "it says that it is told"
	metric_is looking 1 || die "it does not look"
	redis-cli -s "$dir/given.sock" hset service:e entity_type service entity_id e kind k info '{"entity_id":"theirs"}' >/dev/null
	until_says theirs curl -s -m 60 -X POST "$url/list_entities" -H 'Content-Type: application/json' -d '{}'
	metric_is heard_total 0 || die "it says that it was told of keys"
	# It is asked again from time to time.
	redis-cli -s "$dir/given.sock" acl setuser default +config >/dev/null
	wait_for metric_is told 1
	wait_for metric_is looking 0
	is_quiet || die "it warns of what is mended: $(nc status)"
	expect 0 '{"status":"ok"}' curl -s -m 60 "$url/readyz"
	redis-cli -s "$dir/given.sock" hset service:f entity_type service entity_id f kind k info '{}' >/dev/null
	wait_for metric_is heard_total 1
	expect 0 stopped nc stop
	end_given
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

# start_there ADDRESS: what an agent of others there is answered.
start_there() {
	curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' \
		-d "{\"alias\":\"a\",\"address\":\"$1\"}"
}

case_where_agents_of_others_cannot_reach_redis_is_said() {
	local port said

	said="agents of DLSlime are told that Redis is at 127.0.0.1:1: from here it cannot be reached: Connection refused"
	expect 0 started nc start "${options[@]}" --redis-advertise 127.0.0.1:1 --set redis.compat_port=auto
	until_says "warning: $said" nc status
	expect 0 "ready: yes" nc status
	expect 0 "127.0.0.1:1" start_there 127.0.0.1
	expect 0 '"code":"redis_unreachable"' start_there 127.0.0.1
	expect 0 '"agents":[]' curl -s -m 60 "$(field address)/v1/agents"
	expect 0 "[]" curl -s -m 60 -X POST "$(field address)/query" -H 'Content-Type: application/json' -d '{}'
	[ "$(grep -c "$said" "$dir/run/nanoctrl.log")" = 1 ] || die "the log does not say it once"
	expect 0 stopped nc stop

	redis_at_a_port --port --bind 127.0.0.1 --requirepass word --save '' --dir "$dir"
	wait_for redis-cli -p "$port" -a word ping
	NANOCTRL_REDIS_ADVERTISE=127.0.0.1:$port expect 0 started nc start --port 0 --set server.drain_accept=0 \
		--redis-url "redis://:word@127.0.0.1:$port"
	until_says "warning: agents of DLSlime are told that Redis is at 127.0.0.1:$port: it refuses those without a password in database 0: NOAUTH" nc status
	expect 0 '"code":"redis_unreachable"' start_there 10.0.0.9
	redis-cli -p "$port" -a word config set requirepass '' 2>/dev/null >/dev/null
	until_says '"status":"ok"' start_there 10.0.0.9
	wait_for is_quiet
	expect 0 stopped nc stop
	end_given
}

case_the_private_redis_listens_before_what_leads_there_is_tried() {
	local port said="agents of DLSlime are told that Redis is at"

	hold_port
	mkdir -m 700 "$dir/data"
	echo "$port" >"$dir/data/redis.port"
	expect 0 started nc start "${options[@]}" --redis-public-address "127.0.0.1:$port" --set redis.compat_port=auto
	expect 0 '"status":"ok"' start_there 10.0.0.9
	kill -9 "$(redis_pid)"
	wait_for redis-cli -p "$port" ping
	until_says "ready: yes" nc status
	until_says '"code":"name_taken"' start_there 10.0.0.9
	! grep "$said" "$dir/run/nanoctrl.log" || die "it was tried before Redis listened"
	is_quiet || die "it warns: $(nc status)"
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
