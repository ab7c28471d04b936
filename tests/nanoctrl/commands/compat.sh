#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What nanoctrl does for programs of DLSlime, who may be told of its Redis, and its gc: compat.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

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

# told URL ADDRESS: what an agent there is told.
told() {
	curl -s -m 60 -X POST "$1/start_peer_agent" -H 'Content-Type: application/json' -d "{\"address\":\"$2\"}"
}

case_redis_is_told_as_the_environment_says() {
	local url

	DLSLIME_CTRL_REDIS_ADVERTISE=redis://redis.example:7 expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	url=$(field address)
	expect 0 '"redis_address":"redis.example:7"' curl -s -m 60 -X POST "$url/start_peer_agent" \
		-H 'Content-Type: application/json' -d '{"alias":"a","address":"10.0.0.9"}'
	expect 0 '"redis_address":"redis://redis.example:7"' curl -s -m 60 -X POST "$url/get_redis_address" \
		-H 'Content-Type: application/json' -d '{}'
	expect 0 stopped nc stop
}

case_redis_for_those_elsewhere_is_as_the_environment_says() {
	local url

	REDIS_PUBLIC_ADDRESS=redis.example:8 expect 0 started nc start "${options[@]}" --set redis.compat_port=auto
	url=$(field address)
	expect 0 '"redis_address":"redis.example:8"' told "$url" 10.0.0.9
	expect 0 '"redis_address":"127.0.0.1:' told "$url" 127.0.0.1
	expect 0 '"redis_address":"redis://127.0.0.1:' curl -s -m 60 -X POST "$url/get_redis_address" \
		-H 'Content-Type: application/json' -d '{}'
	expect 0 stopped nc stop
}

# start_peer ALIAS: what the client of another control plane is told; its Redis' port.
start_peer() {
	curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' \
		-d "{\"alias\":\"$1\",\"address\":\"192.0.2.99\"}" | sed -n 's/.*"redis_address":"127.0.0.1:\([0-9]*\)".*/\1/p'
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

case_a_redis_that_refuses_config_is_said() {
	local url

	give_redis
	redis-cli -s "$dir/given.sock" acl setuser default -config >/dev/null
	expect 0 started nc start --port 0 --set server.drain_accept=0 --redis-url "unix://$dir/given.sock"
	url=$(field address)
	until_says "warning: Redis does not report keys that other programs write, since it refuses CONFIG" nc status
	expect 0 "ready: yes" nc status
	expect 0 '{"status":"ok","warnings":["Redis does not report keys' curl -s -m 60 "$url/readyz"
	expect 0 "Redis does not report keys that other programs write (NOPERM" cat "$dir/run/nanoctrl.log"
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

case_what_others_left_is_listed() {
	local key
	expect 2 "expected --dry-run" nc gc --data-dir "$dir/data"
	# Once, and at once.
	expect 1 "redis.key: No such file or directory" nc gc --dry-run --data-dir "$dir/data" --set redis.timeout=60s
	[ "$(nc gc --dry-run --data-dir "$dir/data" 2>&1 | wc -l)" = 1 ] || die "it says more than that"
	[ "$(nc obs peers --redis-url redis://127.0.0.1:1 2>&1)" = \
		"nanoctrl: redis://127.0.0.1:1/0: Connection refused" ] || die "obs says it otherwise"
	expect 0 started nc start "${options[@]}"
	rc() {
		private_redis "$@" >/dev/null
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

case_what_redis_refuses_to_tell_is_no_list() {
	give_redis
	redis-cli -s "$dir/given.sock" set mr:a:kv x >/dev/null
	redis-cli -s "$dir/given.sock" acl setuser default -exists >/dev/null
	expect 1 "given.sock: NOPERM" nc gc --dry-run --redis-url "unix://$dir/given.sock"
	end_given
}

case_the_private_redis_is_for_nobody_else_without_a_port() {
	local route said="set redis.compat_port"

	expect 0 started nc start "${options[@]}"
	expect 0 "$said" curl -s -m 60 -X POST "$(field address)/start_peer_agent" -H 'Content-Type: application/json' -d '{"alias":"a","address":"127.0.0.1"}'
	expect 0 "$said" curl -s -m 60 -X POST "$(field address)/get_redis_address" -H 'Content-Type: application/json' -d '{}'
	for route in start_peer_agent get_redis_address; do
		[ "$(curl -s -m 60 -o "$dir/out" -w '%{http_code}' -X POST "$(field address)/$route" -H 'Content-Type: application/json' -d '{"address":"x"}')" = 409 ] ||
			die "$route is not refused"
	done
	[ "$(private_redis config get port | tail -1)" = 0 ] || die "it listens"
	expect 0 stopped nc stop
}

case_gc_of_a_redis_that_says_nothing_ends() {
	give_redis
	kill -STOP "$given"
	expect 1 "it has not answered yet" nc gc --dry-run --redis-url "unix://$dir/given.sock" --set redis.timeout=100ms
	kill -CONT "$given"
	end_given
}

case_the_first_of_two_names_of_where_redis_is_counts() {
	run_given_redis
	NANOCTRL_REDIS_ADVERTISE=redis.example:1 DLSLIME_CTRL_REDIS_ADVERTISE=redis.example:2 REDIS_PUBLIC_ADDRESS=10.1.2.3:4 \
		NANOCTRL_REDIS_URL="unix://$dir/given.sock" expect 0 "log: $dir/run/nanoctrl.log" nc start "${options[@]}"
	until_says "ready: yes" nc status
	expect 0 '"redis_address":"redis.example:1"' told "$(field address)" 10.0.0.9
	expect 0 stopped nc stop
	end_given
}

# What agents say of what they do: ours by the server, others' straight from a Redis as well.
case_agents_are_observed() {
	local url lease redis=$dir/data/redis.sock now
	local patient=(--stale-ms 3600000) # on a busy machine minutes pass
	expect 1 "no server runs" nc obs status
	# At once: not when it has asked for ten seconds.
	expect 1 "nanoctrl: http://127.0.0.1:1: Connection refused" timeout 9 "$program" obs peers --address http://127.0.0.1:1
	expect 1 "no server runs" nc top
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	expect 0 "(no obs snapshots found)" nc obs peers
	expect 0 "none in scope default; --scope names another scope" nc obs peers
	[ "$(nc obs peers --scope s 2>&1)" = "(no obs snapshots found)" ] || die "it names --scope to who named one"
	expect 0 "(no connections reported)" nc obs links
	expect 0 "Peers: 0 alive, 0 stale, 0 stopped" nc obs status
	expect 0 "Scope: (none)" nc obs status --scope ""
	lease=$(curl -s -m 60 -X PUT "$url/v1/agents/ours?order=1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
		sed 's/.*"lease":"\([^"]*\)".*/\1/')
	curl -sf -m 60 -X PUT "$url/v1/agents/ours/snapshot" -H "Slime-Lease: $lease" -H 'Content-Type: application/json' -d '{
		"interval_ms":1000,"host":"h1","pid":11,"uptime_ms":61000,"rss_bytes":2048,"ewma_bandwidth_bps":1200000000.0,
		"summary":{"assign_total":7,"batch_total":5,"completed_bytes_total":2097152,"pending_ops":1,"error_total":2},
		"nics":[{"nic":"shm","assign_total":7,"completed_bytes_total":10}],"connections":[]}' >/dev/null
	expect 0 "ours  h1     11" nc obs peers
	expect 0 "Total: assign=7 batch=5 bytes=2.0MB pending=1 errors=2" nc obs status
	expect 0 "Estimated BW: 0.15GB/s (EWMA)" nc obs status --address "$url" "${patient[@]}"
	now=$(private_redis time | head -1)
	private_redis mset obs:peer:theirs '{"peer_id":"theirs","host":"h2","pid":22,"reported_at_ms":'"$((now - 7200))"'000,
		"summary":{"assign_total":18446744073709551615},"nics":[{},5],"connections":[{"peer":"x","local_nic":"mlx5_0","state":"connected"}]}' \
		obs:peer:junk '{broken' obs:peerless x default:obs:peer:d '{"peer_id":"d","status":"stopped"}' s:obs:peer:s '{"peer_id":"s"}' >/dev/null
	private_redis hset obs:peer:hash a b >/dev/null
	until_says "Peers: 1 alive, 1 stale, 1 stopped" nc obs status "${patient[@]}"
	expect 0 "Redis: unix://$redis  Scope: (none)" nc obs status --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis"
	expect 0 "Peers: 1 alive, 1 stale, 1 stopped" nc obs status --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" "${patient[@]}"
	expect 0 "Peers: 0 alive, 1 stale, 0 stopped" nc obs status --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" --scope s
	NANOCTRL_SCOPE=s expect 0 "Scope: s" nc obs status
	DLSLIME_CTRL_SCOPE=s expect 0 "Scope: s" nc obs status
	NANOCTRL_SCOPE=s DLSLIME_CTRL_SCOPE=t expect 0 "Scope: s" nc obs status
	NANOCTRL_SCOPE=s expect 0 "Scope: t" nc obs status --scope t
	expect 0 '"assign_total":18446744073709551615' nc obs peers --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" --json
	expect 0 "(no NICs reported)" nc obs nics --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" --scope s
	expect 0 "Peers: 1 alive, 0 stale" nc obs status --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" --scope s --stale-ms 9223372036854775807
	expect 0 '{"peer_id":"theirs","age_ms":' nc obs nics --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" --json
	expect 0 '"nic":"shm","assign_total":7,"completed_bytes_total":10,"peer_id":"ours"' nc obs nics --json
	expect 0 "theirs    mlx5_0   x         -        stale" nc obs links --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" "${patient[@]}"
	expect 0 "(no rails reported)" nc obs links --rails --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" "${patient[@]}"
	private_redis set obs:peer:theirs '{"peer_id":"theirs","reported_at_ms":'"$((now - 7200))"'000,"connections":[
		{"peer":"x","state":"connected","rails":5},{"peer":"y","profile":"p","state":"connected","rails":[7,{"state":"down","local_nic":"mlx5_0:1",
		"remote_nic":"mlx5_1:2","share":125,"completed_bytes_total":2048,"failures_total":3,"error":"its port went down","why":"by name"},{}]}]}' >/dev/null
	expect 0 "theirs    y         p           0  mlx5_0:1  mlx5_1:2  down   12.5 %  2.0KB         3  its port went down  by name" \
		nc obs links --rails --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" "${patient[@]}"
	expect 0 '"rails":[7,{"state":"down",' nc obs links --json --redis-url "unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis" "${patient[@]}"
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

run_cases "$@"
