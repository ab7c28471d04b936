#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# devices.sh [PAIR...]: makes two soft-RoCE devices for each, in the guest: what they say to each other crosses a pair of
# virtual Ethernet devices, which tc and ip disturb. Without one it is pair 0; pair 1 has rxe2 and rxe3, and 10.78.
#
#   rxe0 on wire0, 10.77.0.1      rxe1 on wire1, 10.77.0.2      GID index 1: RoCE v2, IPv4      path MTU 4096
set -euo pipefail

# In our guest they are loaded already; another runner's kernel may have them built in.
modprobe -a rdma_rxe rdma_ucm veth 2>/dev/null || true

# What a device answers waits here until the processor that sends takes it in; a burst of reads brings thousands of
# packets. When some found no room, soft-RoCE was seen to end the queue pair, with a warning of the kernel's
# (rxe_completer).
echo 16384 >/proc/sys/net/core/netdev_max_backlog

# Both addresses are this host's own: it shall take packets from itself that arrive by the wire.
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter

# rxe's sockets are those of the first network namespace only, so both ends live there. 4200 bytes hold 4096 of payload
# with all headers.
for pair in "${@:-0}"; do
	first=$((2 * pair)) second=$((2 * pair + 1)) net=$((77 + pair))
	ip link add "wire$first" mtu 4200 address "02:00:00:00:$net:01" type veth \
		peer name "wire$second" mtu 4200 address "02:00:00:00:$net:02"
	ip address add "10.$net.0.1/24" dev "wire$first"
	ip address add "10.$net.0.2/24" dev "wire$second"
	for i in "$first" "$second"; do
		ip link set "wire$i" up
		echo 0 >"/proc/sys/net/ipv4/conf/wire$i/rp_filter"
		echo 1 >"/proc/sys/net/ipv4/conf/wire$i/accept_local"
	done
	rdma link add "rxe$first" type rxe netdev "wire$first"
	rdma link add "rxe$second" type rxe netdev "wire$second"
done
