#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified engines of Mooncake over tcp, with our metadata server and with their own: a transfer, an engine that is killed, its second
# life, and a transfer again. With their server the second life cannot begin.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

venv=$SLIME_BUILD/interop/mooncake
packages=(mooncake-transfer-engine-non-cuda==0.3.13.post1 numpy aiohttp)
get_packages
"$venv/bin/python" -c 'import mooncake.engine' >"$work/import.err" 2>&1 ||
	skip "the wheel cannot be loaded here: $(tail -n 1 "$work/import.err")"

start_redis
spawn nanoctrl "$bin/nanoctrl" server --port 0 --runtime-dir "$work/nanoctrl" --redis-url "unix://$work/redis.sock" \
	--set server.mooncake=loopback --set server.drain_accept=0s
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
ours=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")
wait_for 15 curl -sf "$ours/readyz" || fail "nanoctrl is not ready"
take_port theirs
spawn theirs "$venv/bin/mooncake_http_metadata_server" --host 127.0.0.1 --port "${port_of[theirs]}"
theirs=http://127.0.0.1:${port_of[theirs]}
their_server_answers() {
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$theirs/metadata?key=x")" = 404 ]
}
wait_for 15 their_server_answers || fail "their server does not serve"
"$venv/bin/python" "$here/mooncake_lives.py" "$ours" lives || fail "with our server"
"$venv/bin/python" "$here/mooncake_lives.py" "$theirs" ends || fail "with their server"
