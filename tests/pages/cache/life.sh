#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-cache start, status and stop with real processes, beside a real nanoctrl: life.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/../../nanoctrl/commands/cli.sh"

export DLSLIME_CACHE_RUNTIME_DIR=$dir/cache

sc() {
	timeout 120 "$SLIME_BIN/slime-cache" "$@" </dev/null
}

# What a case leaves of a cache goes with it.
clean_nanoctrl=$(declare -f clean)
eval "${clean_nanoctrl/clean/clean_rest}"
clean() {
	sc stop --force --timeout 5s >/dev/null 2>&1 || true
	clean_rest
}

url() {
	sc status | sed -n 's/^address: //p'
}

# post PATH BODY
post() {
	curl -s -X POST "$(url)$1" -d "$2"
}

case_starts_once_and_stops_twice() {
	expect 1 "not running" sc status
	expect 0 "slime-cache started (pid=" sc start --port 0 --memory-size 1G
	expect 0 "already running" sc start
	expect 0 "ready: yes" sc status
	expect 0 '"num_slabs":4096' curl -s "$(url)/stats"
	expect 0 "slime_cache_slabs 4096" curl -s "$(url)/metrics"
	expect 0 "slime-cache stopped (pid=" sc stop
	expect 0 "slime-cache is not running" sc stop
	[ ! -e "$dir/cache/slime-cache.pid" ] || die "its pid file is left"
	[ ! -e "$dir/cache/slime-cache.meta.json" ] || die "its meta file is left"
}

case_a_start_for_another_port_is_refused() {
	expect 0 started sc start --port 0
	expect 1 "started otherwise: its port is" sc start --port 1
}

case_says_that_no_bytes_move() {
	expect 0 "note: it keeps the directory only" sc start --port 0
	expect 0 503 curl -s -o "$dir/body" -w '%{http_code}' "$(url)/peer-agent"
	grep -q '"error":' "$dir/body" || die "$(cat "$dir/body")"
}

case_keeps_manifests_until_they_are_deleted() {
	expect 0 started sc start --port 0 --memory-size 1M --slab-size 128K
	expect 0 '"slab_ids":[0,1]' post /store '{"peer_agent_id":"a","assignments":[{"mr_key":1,"remote_mr_key":2,"target_offset":0,"source_offset":0,"length":131073}]}'
	expect 0 '"slab_ids":[0,1]' post /query '{"peer_agent_id":"a","version":1}'
	expect 0 'manifest not found' post /query '{"peer_agent_id":"b","version":1}'
	expect 0 '"deleted":true' post /delete '{"peer_agent_id":"a","version":1}'
	expect 0 '"deleted":false' post /delete '{"peer_agent_id":"a","version":1}'
	expect 0 'not enough' post /store '{"peer_agent_id":"a","assignments":[{"mr_key":1,"remote_mr_key":2,"target_offset":0,"source_offset":0,"length":1048577}]}'
}

case_a_killed_one_leaves_nothing_in_the_way() {
	expect 0 started sc start --port 0
	local pid
	pid=$(sc status | sed -n 's/^pid: //p')
	kill -KILL "$pid"
	await_end "$pid"
	expect 1 "process: not running" sc status
	expect 0 started sc start --port 0
	expect 0 "stopped" sc stop
}

case_bad_sizes_and_hosts_are_usage_errors() {
	expect 2 "multiple of --slab-size" sc start --memory-size 1000
	expect 2 "from 128K to 1G" sc start --slab-size 1K
	expect 2 "a size such as" sc start --memory-size lots
	expect 2 "loopback" sc start --host 0.0.0.0
	expect 2 "the URL of nanoctrl" sc start --ctrl nowhere
}

case_a_port_that_is_taken_is_said() {
	other_server
	expect 1 "cannot listen on 127.0.0.1 port $port" sc start --port "$port"
}

# listed URL: what the control plane lists.
listed() {
	curl -s -X POST "$1/list_entities" -H 'Content-Type: application/json' -d '{"kind":"cache"}'
}

case_is_listed_by_the_control_plane_until_it_stops() {
	local ctrl

	expect 0 started nc start "${options[@]}"
	ctrl=$(field address)
	expect 0 started sc start --port 0 --ctrl "$ctrl" --heartbeat-interval 100ms
	until_says '"entity_id":"cache:0"' listed "$ctrl"
	until_says "\"port\":$(url | sed 's/.*://')" listed "$ctrl"
	expect 0 stopped sc stop
	expect 0 '"entities":[]' listed "$ctrl"
}

case_registers_again_where_it_was_forgotten() {
	local ctrl

	expect 0 started nc start "${options[@]}"
	ctrl=$(field address)
	expect 0 started sc start --port 0 --ctrl "$ctrl" --heartbeat-interval 100ms
	until_says '"entity_id":"cache:0"' listed "$ctrl"
	curl -s -X POST "$ctrl/unregister" -H 'Content-Type: application/json' -d '{"entity_id":"cache:0"}' >"$dir/out"
	until_says '"entity_id":"cache:0"' listed "$ctrl"
}

case_serves_without_its_control_plane_and_says_so() {
	hold_port
	expect 0 started sc start --port 0 --ctrl "http://127.0.0.1:$port" --heartbeat-interval 100ms
	until_says "warning: clients do not find it at the control plane: Connection refused" sc status
	expect 0 '"slab_size"' curl -s "$(url)/stats"
	end_given
	expect 0 started nc start --port "$port" --data-dir "$dir/data" --set server.drain_accept=0
	until_says '"entity_id":"cache:0"' listed "http://127.0.0.1:$port"
	until_says "clients find this cache at" cat "$dir/cache/slime-cache.log"
}

run_cases "$@"
