#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The routes of DLSlime's NanoCtrl: the same requests to its server and to ours, and its unmodified Python client with ours.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original

# The state of each is its own, so that the two can be compared.
start_redis_at redis-theirs
start_redis_at redis-ours
take_port theirs
NANOCTRL_RUST_LOG=error NANOCTRL_RUNTIME_DIR=$work/theirs spawn theirs "$venv/bin/nanoctrl" server --host 127.0.0.1 \
	--port "${port_of[theirs]}" --redis-url "redis://127.0.0.1:${port_of[redis-theirs]}"
theirs=http://127.0.0.1:${port_of[theirs]}
wait_for 10 curl -sf "$theirs/" || fail "the original does not serve"
spawn ours "$bin/nanoctrl" server --port 0 --runtime-dir "$work/nanoctrl" \
	--redis-url "redis://127.0.0.1:${port_of[redis-ours]}"
wait_for 15 grep -q 'serves at' "$work/ours.out" || fail "nanoctrl does not serve"
ours=$(sed -n 's/.*serves at //p' "$work/ours.out")
wait_for 10 curl -sf "$ours/readyz" || fail "nanoctrl is not ready"

say "the same requests to both"
python3 "$here/routes.py" "$theirs" "${port_of[redis-theirs]}" "$ours" "${port_of[redis-ours]}" ||
	fail "they differ"
say "their client, with each of them"
"$venv/bin/python" "$here/client.py" "$theirs" || fail "their client cannot with their server"
"$venv/bin/python" "$here/client.py" "$ours" || fail "their client cannot with ours"
say "both on one Redis"
spawn beside "$bin/nanoctrl" server --port 0 --runtime-dir "$work/beside" \
	--redis-url "redis://127.0.0.1:${port_of[redis-theirs]}"
wait_for 15 grep -q 'serves at' "$work/beside.out" || fail "nanoctrl does not serve"
beside=$(sed -n 's/.*serves at //p' "$work/beside.out")
wait_for 10 curl -sf "$beside/readyz" || fail "nanoctrl is not ready"
# post URL ROUTE BODY
post() {
	curl -sf -X POST "$1/$2" -H 'Content-Type: application/json' -d "$3"
}
post "$beside" register '{"entity_id":"one","kind":"k","scope":"both"}' >/dev/null
post "$theirs" get_entity_info '{"entity_id":"one","scope":"both"}' | grep -q '"kind":"k"' || fail "they do not see ours"
post "$theirs" list_entities '{"scope":"both","entity_type":"service"}' | grep -q '"one"' || fail "they do not list ours"
post "$theirs" register '{"entity_id":"two","kind":"k","scope":"both"}' >/dev/null
post "$beside" get_entity_info '{"entity_id":"two","scope":"both"}' | grep -q '"kind":"k"' || fail "we do not see theirs"
post "$beside" list_entities '{"scope":"both"}' | grep -q '"two"' || fail "we do not list theirs"
post "$theirs" start_peer_agent '{"alias":"a","address":"127.0.0.1","scope":"both"}' >/dev/null
post "$beside" query '{"scope":"both"}' | grep -q '"name":"a"' || fail "we do not list their agent"
post "$beside" start_peer_agent '{"alias":"a","address":"127.0.0.1","scope":"both"}' >/dev/null &&
	fail "we gave their alias away"
post "$beside" heartbeat '{"entity_type":"agent","entity_id":"a","scope":"both"}' | grep -q '"ok"' ||
	fail "their agent cannot beat here"
post "$beside" query '{"scope":"both"}' | grep -q '"name":"a"' || fail "it is not listed afterwards"
