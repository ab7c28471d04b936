#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The metadata server for Mooncake's engines: two replicas over one Redis, and owners that are sockets of owners.py.
. "$(dirname "${BASH_SOURCE[0]}")/../../e2e/cluster.sh"

# start_replica NAME [OPTION...]: its URL is in url_of[NAME].
declare -A url_of=()
start_replica() {
	spawn "$1" "$bin/nanoctrl" server --port 0 --runtime-dir "$work/$1-run" --redis-url "unix://$work/redis.sock" \
		--set server.drain_accept=0s "${@:2}"
	wait_for 15 grep -q 'serves at' "$work/$1.out" || fail "$1 does not serve"
	url_of[$1]=$(sed -n 's/.*serves at //p' "$work/$1.out")
	wait_for 15 curl -sf "${url_of[$1]}/readyz" || fail "$1 is not ready"
}

start_redis
start_replica off
code=$(curl -s -o "$work/answer" -w '%{http_code}' "${url_of[off]}/metadata?key=mooncake/ram/a")
[ "$code" = 404 ] || fail "without server.mooncake: $code"
end off
start_replica one --set server.mooncake=loopback
start_replica two --set server.mooncake=open --set server.compat=off
python3 "$(dirname "${BASH_SOURCE[0]}")/owners.py" "${url_of[one]}" "${url_of[two]}" "$work/redis.sock" || fail "owners.py"
