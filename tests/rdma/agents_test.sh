#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two agents over real verbs, one on each device, which have nothing else: calls and transfers, every byte compared, by
# an agent that both can reach over rdma alone; the link of a wire that goes down and comes back.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
. "$(dirname "${BASH_SOURCE[0]}")/wire.sh"
trap 'mend_wires; cleanup' EXIT

# bench COMMAND OPTION...: between the agents, node-a initiates.
bench() {
	"$bin/slime-bench" "$1" --ctrl "$url" --scope test --from node-a --peer node-b --transport rdma "${@:2}" \
		>"$work/bench.out" 2>"$work/bench.err" </dev/null || fail "slime-bench $*: $(cat "$work/bench.out")"
	cat "$work/bench.out"
}

# What the receivers of both devices were not ready for, so far.
not_ready() {
	cat /sys/class/infiniband/rxe{0,1}/ports/1/hw_counters/{send,rcvd}_rnr_err | awk '{ n += $1 } END { print n }'
}

write_agent node-a 'data: { transports: [rdma], rdma: { devices: [rxe0] } }' 'links: [ { to: node-b } ]' \
	'services: [ { name: echo }, { name: bench } ]'
write_agent node-b 'data: { transports: [rdma], rdma: { devices: [rxe1] } }' 'services: [ { name: echo }, { name: bench } ]'
start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected rdma

say "calls, and transfers each way, and no receiver that is not ready"
before=$(not_ready)
bench rpc --sizes 64,4KiB,256KiB --iterations 20
for op in read write write_imm; do
	bench transfer --op "$op" --block-size 64KiB --batch-size 8 --duration 500ms
	grep -q verified "$work/bench.out" || fail "$op: not verified"
done
bench rpc --sizes 64,16KiB --iterations 200 --threads 2 --inflight 32
[ "$(not_ready)" = "$before" ] || fail "receivers were not ready $before times before, and $(not_ready) after"

say "a wire that goes down ends the link, and it comes back with the wire"
ip link set wire1 down
not_connected() {
	! link_is node-a node-b default connected
}
wait_for 20 not_connected || fail "the link is still connected: $(links)"
ip link set wire1 up
wait_link 30 node-a node-b default connected rdma
bench rpc --sizes 4KiB --iterations 5
