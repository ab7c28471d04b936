#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What our agents and DLSlime's say of what they do, on one Redis: its command line and ours show the same, and all of it.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original
start_redis_at redis
take_port ours
ours_at redis
# No lease ends while its agent stands still.
spawn ours "${command[@]}" --port "${port_of[ours]}" --set lease.ttl=300s
url=http://127.0.0.1:${port_of[ours]}
wait_for 15 curl -sf "$url/readyz" || fail "nanoctrl is not ready"
write_agent node-a 'links: [ { to: node-b, transports: [tcp] } ]'
write_agent node-b 'regions: [ { name: kv, size: 1MiB, access: [read, write] } ]'
for node in node-a node-b; do
	start_agent "$node" --set control.snapshots=500ms
done
wait_ready node-a node-b
"$venv/bin/python" "$here/obs.py" "$venv/bin/python" "$venv/bin/nanoctrl" "$bin/nanoctrl" "$url" "${port_of[redis]}" \
	"${pids[node-a]}" "${pids[node-b]}" || fail "they show something else"
