#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The metadata server for Mooncake's engines: replicas over one Redis, and owners that are sockets of owners.py. With root's rights one
# replica is in a network namespace of its own, where 127.0.0.1 is another host's.
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

[ "$(id -u)" -eq 0 ] || exit 0
spawn far unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$bin/nanoctrl" server --port 0 --runtime-dir "$work/far-run" \
	--redis-url "unix://$work/redis.sock" --set server.mooncake=loopback --set server.drain_accept=0s
wait_for 15 grep -q 'serves at' "$work/far.out" || fail "far does not serve"
far=$(sed -n 's/.*serves at //p' "$work/far.out")
# curl_far CURL'S...: there.
curl_far() {
	nsenter --target "${pids[far]}" --net curl -s "$@"
}
wait_for 15 curl_far -f "$far/readyz" || fail "far is not ready"
spawn owner python3 -c 'import signal, socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
signal.pause()'
wait_for 10 test -s "$work/owner.out" || fail "no owner"
put() {
	curl "${@:2}" -s -X PUT -d "{\"rpc_port\":$1}" -H 'Content-Type: application/json'
}
put "$(cat "$work/owner.out")" "${url_of[one]}/metadata?key=mooncake/rpc_meta/here" | grep -q '"ok"' || fail "PUT"
seen() {
	[ "$(redis-cli -s "$work/redis.sock" hget nanoctrl:mooncake:engine:here seen)" = 1 ]
}
wait_for 5 seen || fail "the owner was not probed"
say "an owner that lives is not looked for elsewhere"
end one
end two
redis-cli -s "$work/redis.sock" hset nanoctrl:mooncake:engine:here asked 0 >"$work/answer"
curl_far -X PUT -d '{"rpc_port":1}' "$far/metadata?key=mooncake/rpc_meta/other" >"$work/answer"
probed() {
	curl_far "$far/metrics" | grep -q 'mooncake_probes_total [1-9]'
}
wait_for 5 probed || fail "far probes nothing"
spend 6 # longer than a period
curl_far -f "$far/metadata?key=mooncake/rpc_meta/here" >"$work/answer" || fail "a living owner was removed by a replica elsewhere"
