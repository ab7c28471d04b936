#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DLSlimeCache's unmodified client with its own directory, without bytes, and with ours, which it finds through our control plane.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original
start_redis_at redis
take_port theirs
sizes=(--slab-size 128K --memory-size 1M)

spawn theirs "$venv/bin/dlslime-cache" __run --port "${port_of[theirs]}" "${sizes[@]}" --metadata-only --quiet
theirs=http://127.0.0.1:${port_of[theirs]}
wait_for 15 curl -sf "$theirs/healthz" || fail "the original does not serve"
spawn nanoctrl "$bin/nanoctrl" server --port 0 --runtime-dir "$work/nanoctrl" --redis-url "redis://127.0.0.1:${port_of[redis]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
ctrl=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")
wait_for 10 curl -sf "$ctrl/readyz" || fail "nanoctrl is not ready"
spawn ours "$bin/slime-cache" server --port 0 --runtime-dir "$work/cache" "${sizes[@]}" --ctrl "$ctrl" --metadata-only
wait_for 15 grep -q 'serves at' "$work/ours.out" || fail "slime-cache does not serve"
ours=$(sed -n 's/.*serves at //p' "$work/ours.out")
wait_for 15 sh -c "curl -s -X POST '$ctrl/list_entities' -H 'Content-Type: application/json' -d '{}' | grep -q cache:0" ||
	fail "slime-cache is not listed"
"$venv/bin/python" "$here/cache.py" "$theirs" "$ours" "$ctrl" || fail "their client sees something else with us"
