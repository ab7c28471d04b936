#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Agents without an owner key on disk: one that was killed is started again while no lease may end, and waits for its
# name; one whose name belongs to a living agent is told so before that agent's lease could have ended.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

write_agent node-a
sed -i "s/, state_dir: [^ ]*//" "$work/node-a.yaml"

# For one lease from when nanoctrl reached Redis none may end. Longer than a process that gives up at once waits; and
# where the machine was so slow that it was over before the name was asked for, once more with a longer one.
ttl=12
waited=0
start_redis
while [ "$waited" -eq 0 ]; do
	[ "$ttl" -lt 60 ] || fail "it does not say what it waits for"
	lease=(--set lease.ttl="${ttl}s" --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)
	began=$SECONDS
	start_nanoctrl
	start_agent node-a
	wait_ready node-a

	say "killed, and back while its lease of $ttl s stands"
	end node-a KILL
	start_agent node-a
	wait_ready node-a
	[ "$((SECONDS - began))" -ge "$ttl" ] || fail "its lease cannot have ended by then"
	waited=$(grep -c 'has it since .* waiting until ' "$work/node-a.err") && break
	end node-a
	end nanoctrl
	ttl=$((2 * ttl))
done
[ "$waited" -eq 1 ] || fail "it says more than once what it waits for"

say "a stranger to a living agent"
cp "$work/node-a.yaml" "$work/stranger.yaml"
start_agent stranger
reap stranger
[ "$status" -eq 1 ] || fail "it ended with $status"
grep -q 'the name node-a is held by another agent.*: incarnation [0-9a-f]* at .* has it since ' "$work/stranger.err" ||
	fail "it does not say who has the name"
grep -q 'waiting until ' "$work/stranger.err" || fail "it did not wait for a sign of life"
kill -0 "${pids[node-a]}" || fail "the first one ended"
