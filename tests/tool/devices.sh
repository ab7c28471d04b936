#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime devices: what it says of hosts with RDMA and without, in a table and in JSON, and how it ends.
. "$(dirname "${BASH_SOURCE[0]}")/../bench/sysfs.sh"

program=slime

ipv4=0000:0000:0000:0000:0000:ffff:0a4d:0001

echo "-- a kernel without RDMA"
mkdir "$sys"
run 1 devices
says "No RDMA: the kernel has no RDMA support"
says "modprobe"
run 1 devices --json
json 'd["devices"] == [] and d["usable_ports"] == 0 and "no RDMA support" in d["why"]'

echo "-- no adapter"
mkdir -p "$sys/class/infiniband"
run 1 devices
says "rdma link add"

echo "-- one of two ports can be used"
roce mlx5_0 eth2 "$ipv4"
roce mlx5_1 eth3 fe80:0000:0000:0000:0e42:a1ff:fe12:3456
put class/infiniband/mlx5_1/ports/1/state "1: DOWN"
run 0 devices
says "mlx5_0 .* ACTIVE .* Ethernet .* 100 .* eth2 .* yes"
says "mlx5_1 .* DOWN .* no"
says "port 1    usable: GID index 0, RoCE v2, 10.77.0.1 of eth2"
says "port 1    not usable: port 1 is DOWN"
says "MTU of eth2: 4200"
run 0 devices --json
json 'd["usable_ports"] == 1'
json '[x["name"] for x in d["devices"]] == ["mlx5_0", "mlx5_1"]'
json 'd["devices"][0]["ports"][0]["gids"] == [{"index": 0, "type": "RoCE v2", "gid": "10.77.0.1", "netdev": "eth2"}]'
json 'd["devices"][0]["ports"][0]["mtu"] is None and d["devices"][0]["limits"] is None'
json 'd["devices"][1]["ports"][0]["gid_index"] is None and not d["devices"][1]["ports"][0]["usable"]'

echo "-- a GPU behind the same switch"
switch=devices/pci0000:16/0000:16:01.0/0000:17:00.0
put $switch/0000:18:00.0/0000:19:00.0/numa_node 1
put $switch/0000:18:04.0/0000:1a:00.0/class 0x030200
put $switch/0000:18:04.0/0000:1a:00.0/vendor 0x10de
put $switch/0000:18:04.0/0000:1a:00.0/device 0x2330
put $switch/0000:18:04.0/0000:1a:00.0/numa_node 1
mkdir -p "$sys/bus/pci/devices"
ln -s "$sys/$switch/0000:18:04.0/0000:1a:00.0" "$sys/bus/pci/devices/0000:1a:00.0"
ln -s "$sys/$switch/0000:18:00.0/0000:19:00.0" "$sys/class/infiniband/mlx5_0/device"
run 0 devices
says "GPU       0000:1a:00.0  10de:2330  PIX"
run 0 devices --json
json 'd["devices"][0]["numa_node"] == 1 and d["devices"][0]["pci"] == "0000:19:00.0"'
json 'd["devices"][0]["gpus"][0]["distance"] == "PIX" and d["devices"][1]["gpus"] == []'

echo "-- none can be used"
put class/infiniband/mlx5_0/ports/1/state "1: DOWN"
run 1 devices

echo "-- text from the device drives no terminal and breaks no JSON"
put class/infiniband/mlx5_0/ports/1/state $'4: \e[31m"\xff'
run 0 devices
! grep -q $'\e' "$work/out" || fail "an escape came through"
run 0 devices --json
json 'd["usable_ports"] == 1'

echo "-- output that cannot be written"
status=0
"$bin/slime" devices --sysfs "$sys" >/dev/full 2>"$work/err" || status=$?
[ "$status" -eq 1 ] || fail "it ended with $status"
grep -q "standard output" "$work/err" || fail "it does not say why"
