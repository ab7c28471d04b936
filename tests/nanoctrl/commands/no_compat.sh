#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A nanoctrl that was built without compat: no_compat.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

case_compatible_routes_are_unknown() {
	local path url

	expect 0 started nc start "${options[@]}"
	url=$(field address)
	for path in heartbeat register unregister get_entity_info list_entities start_peer_agent query cleanup v1/desired_topology/a \
		register_mr get_mr_info get_redis_address; do
		expect 0 404 curl -s -m 60 -o /dev/null -w '%{http_code}' -X POST "$url/$path" -H 'Content-Type: application/json' -d '{}'
	done
	expect 0 '"agents":[]' curl -s -m 60 "$url/v1/agents"
	[ "$(private_redis config get notify-keyspace-events | tail -1)" = "" ] || die "Redis reports keys, and nobody listens"
	expect 0 stopped nc stop
}

case_settings_of_compat_are_refused() {
	expect 2 "server.compat: expected off: this nanoctrl was built without compat" nc start "${options[@]}" --set server.compat=loopback
	expect 2 "redis.compat_port: expected off: this nanoctrl was built without compat" nc start "${options[@]}" --set redis.compat_port=auto
	expect 0 started nc start "${options[@]}" --set server.compat=off
	expect 0 stopped nc stop
}

case_gc_says_why_it_cannot() {
	expect 1 "gc: this nanoctrl was built without compat" nc gc --dry-run --data-dir "$dir/data"
}

run_cases "$@"
