#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes two soft-RoCE devices, in the guest: what they say to each other crosses a pair of virtual Ethernet devices, which
# tc and ip disturb.
#
#   rxe0 on wire0, 10.77.0.1      rxe1 on wire1, 10.77.0.2      GID index 1: RoCE v2, IPv4      path MTU 4096
set -euo pipefail

# In our guest they are loaded already; another runner's kernel may have them built in.
modprobe -a rdma_rxe rdma_ucm veth 2>/dev/null || true

# rxe's sockets are those of the first network namespace only, so both ends live there. 4200 bytes hold 4096 of payload
# with all headers.
ip link add wire0 mtu 4200 address 02:00:00:00:77:01 type veth \
	peer name wire1 mtu 4200 address 02:00:00:00:77:02
ip address add 10.77.0.1/24 dev wire0
ip address add 10.77.0.2/24 dev wire1
ip link set wire0 up
ip link set wire1 up

# Both addresses are this host's own: it shall take packets from itself that arrive by the wire.
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
for wire in wire0 wire1; do
	echo 0 >"/proc/sys/net/ipv4/conf/$wire/rp_filter"
	echo 1 >"/proc/sys/net/ipv4/conf/$wire/accept_local"
done
rdma link add rxe0 type rxe netdev wire0
rdma link add rxe1 type rxe netdev wire1
