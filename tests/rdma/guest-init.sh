#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the guest, once / is the host's file system. guest.sh copies it into the shared directory, which is
# mounted at /run/guest; it runs the command there, and leaves its status.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb

control=/run/guest/.guest
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
# What commands keep for a while: away from the files of the host, whose home folders root here may not be able to read.
mkdir -m 1777 /run/tmp /run/lock
export TMPDIR=/run/tmp HOME=/run/tmp
ip link set lo up
echo guest >/proc/sys/kernel/hostname
ulimit -l unlimited
ulimit -c 0

dir=$(<"$control/dir")
mkdir -p "$dir"
mount --bind /run/guest "$dir"
stty -F /dev/hvc0 raw -echo
: >"$control/up"
setsid bash "$control/command" </dev/null >/dev/hvc0 2>&1
status=$?
dmesg >"$control/dmesg"
echo "$status" >"$control/status.new"
mv "$control/status.new" "$control/status"
# QEMU takes a reset for the end.
echo b >/proc/sysrq-trigger
sleep 10
