#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime doctor: what it says of made-up hosts with one fault each, and how it ends.
. "$(dirname "${BASH_SOURCE[0]}")/../bench/sysfs.sh"

proc=$work/proc
ipv4=0000:0000:0000:0000:0000:ffff:0a4d:0001
link_local=fe80:0000:0000:0000:0e42:a1ff:fe12:3456
ipv6=2001:0db8:0000:0000:0000:0000:0000:0001

# limits MEMLOCK FILES CAPABILITIES
limits() {
	mkdir -p "$proc/self"
	cat >"$proc/self/limits" <<-END
		Limit                     Soft Limit           Hard Limit           Units
		Max open files            $2                 $2               files
		Max locked memory         $1                65536                bytes
	END
	printf 'Name:\tslime\nCapEff:\t%s\nCpus_allowed_list:\t%s\n' "$3" "${4:-0-3}" >"$proc/self/status"
	echo 0::/pod >"$proc/self/cgroup"
}

# A host on which everything is fine.
healthy() {
	rm -rf "$sys" "$proc"
	mkdir -p "$sys/class/infiniband"
	put module/ib_uverbs/refcnt 0
	put kernel/mm/hugepages/hugepages-2048kB/free_hugepages 512
	put fs/cgroup/pod/memory.max max
	put devices/system/node/node0/cpulist 0-3
	put devices/system/node/node1/cpulist 4-7
	limits unlimited 65536 0000000000000000
}

# doctor STATUS OPTION...
doctor() {
	local status=0

	"$bin/slime" doctor --sysfs "$sys" --procfs "$proc" "${@:2}" >"$work/out" 2>"$work/err" || status=$?
	[ "$status" -eq "$1" ] || fail "doctor ${*:2}: it ended with $status"
}

silent() {
	! grep -q -- "$1" "$work/out" || fail "it says: $1"
}

echo "-- all is fine"
healthy
roce mlx5_0 eth2 "$ipv4"
doctor 0
says '^ok    mlx5_0:1      GID index 0, RoCE v2, 10.77.0.1 of eth2'
says '^ok    modules       ib_uverbs is loaded'
says '^ok    memlock       '
says '^ok    hugepages     512 pages'
says '^ok    NUMA '
silent '^BAD\|^note'
doctor 0 --quiet
[ ! -s "$work/out" ] || fail "it is not quiet"

echo "-- no RDMA is no fault, and says what would help"
healthy
rm -r "$sys/class/infiniband"
doctor 0
says '^note  modules       the kernel has no RDMA support.*modprobe'

echo "-- a device that no program can open"
healthy
roce mlx5_0 eth2 "$ipv4"
rm -r "$sys/module"
doctor 1
says '^BAD   modules       ib_uverbs is not loaded.*modprobe ib_uverbs'

echo "-- a bond with an empty GID"
healthy
roce mlx5_bond_0 bond0 0000:0000:0000:0000:0000:0000:0000:0000
put class/infiniband/mlx5_bond_0/parent bond0
put class/net/bond0/bonding/mode "802.3ad 4"
doctor 1
says '^BAD   mlx5_bond_0:1 .*no RoCE v2 GID.*as that of a bond without an address.*ip address add ADDRESS dev bond0'

echo "-- a link-local GID"
healthy
roce mlx5_0 eth2 "$link_local"
doctor 1
says '^BAD   mlx5_0:1 .*GID index 0 is link-local.*give eth2 an IP address'

echo "-- IPv6 only"
healthy
roce mlx5_0 eth2 "$ipv6"
doctor 0
says '^note  mlx5_0:1 .*global IPv6.*peers need a global IPv6 address'

echo "-- a GID of another container's interface"
healthy
roce mlx5_0 eth2 "$ipv4"
rm -r "$sys/class/net/eth2"
doctor 1
says '^BAD   mlx5_0:1 .*GID index 0 belongs to eth2, which is not in this network namespace: indices differ by container'

echo "-- four of eight are down"
healthy
for i in 0 1 2 3 4 5 6 7; do
	roce mlx5_$i eth$i "$ipv4"
	[ $i -lt 4 ] || put class/infiniband/mlx5_$i/ports/1/state "1: DOWN"
done
doctor 1
says '^BAD   mlx5_4:1 .*port 1 is DOWN'
says '^note  devices       4 of 8 ports cannot be used'

echo "-- a GPU without a way to its memory"
healthy
roce mlx5_0 eth2 "$ipv4"
put devices/pci0000:16/0000:17:00.0/numa_node 0
put devices/pci0000:16/0000:1a:00.0/class 0x030200
put devices/pci0000:16/0000:1a:00.0/vendor 0x10de
put devices/pci0000:16/0000:1a:00.0/device 0x2330
put devices/pci0000:16/0000:1a:00.0/numa_node 0
mkdir -p "$sys/bus/pci/devices"
ln -s "$sys/devices/pci0000:16/0000:1a:00.0" "$sys/bus/pci/devices/0000:1a:00.0"
ln -s "$sys/devices/pci0000:16/0000:17:00.0" "$sys/class/infiniband/mlx5_0/device"
doctor 1
says '^BAD   peermem .*neither nvidia_peermem nor a driver that exports dmabuf.*modprobe nvidia_peermem'
put module/nvidia_peermem/refcnt 0
doctor 0
says '^ok    peermem '
rm -r "$sys/module/nvidia_peermem"
mkdir -p "$proc/driver/nvidia"
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03" >"$proc/driver/nvidia/version"
doctor 0
says '^ok    dmabuf '

echo "-- 64 KiB of locked memory"
healthy
roce mlx5_0 eth2 "$ipv4"
limits 65536 65536 0000000000000000
doctor 1
says '^BAD   memlock .*64 KiB.*LimitMEMLOCK=infinity'
limits 65536 65536 0000000000004000
doctor 0
says '^ok    memlock '

echo "-- few files, little memory, no device for this group"
healthy
roce mlx5_0 eth2 "$ipv4"
limits unlimited 256 0000000000000000
put fs/cgroup/pod/memory.max 1073741824
put fs/cgroup/pod/rdma.max "mlx5_0 hca_handle=0 hca_object=0"
doctor 1
says '^note  ulimits       256 files'
says '^note  cgroup        memory.max is 1024 MiB'
says '^BAD   cgroup        rdma.max allows no device'

echo "-- no huge pages"
healthy
put kernel/mm/hugepages/hugepages-2048kB/free_hugepages 0
put kernel/mm/transparent_hugepage/shmem_enabled "always within_size advise [never] deny force"
doctor 0
says '^note  hugepages     none of 2 MiB is free'

echo "-- CPUs of another node, and small packets"
healthy
roce mlx5_0 eth2 "$ipv4"
put class/infiniband/mlx5_0/device/numa_node 1
put class/net/eth2/mtu 1500
doctor 0
says '^note  NUMA          mlx5_0 is at node 1'
says '^note  mlx5_0:1 .*the MTU of eth2 is 1500'

echo "-- nobody at the other end"
healthy
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
doctor 1 --redis "127.0.0.1:$port" --ctrl "http://127.0.0.1:$port"
says "^BAD   Redis         127.0.0.1:$port: nothing listens there"
says "^BAD   nanoctrl      http://127.0.0.1:$port: nothing listens there"
doctor 1 --peer node-b
says '^BAD   peer          node-b: --ctrl URL'

echo "-- text from the host drives no terminal"
healthy
roce mlx5_0 eth2 "$ipv4"
put class/infiniband/mlx5_0/ports/1/state $'4: \e[31m"\xff'
doctor 0
! grep -q $'\e' "$work/out" || fail "an escape came through"
