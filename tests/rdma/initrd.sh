#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of the guest, in the initrd: loads the modules, and moves to the host's file system, whose writes go
# to memory. What happens then is in "init" of the directory that guest.sh shares.

busybox=/bin/busybox
$busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc

die() {
	echo "initrd: $*" >/dev/console
	$busybox reboot -f
}

while read -r module; do
	insmod "/modules/$module" || die "$module cannot be loaded"
done </modules/order

p9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "$p9,ro,cache=loose" host /host || die "the host's file system cannot be mounted"
mount -t tmpfs -o mode=755,size=60% layers /layers
mkdir /layers/upper /layers/work
mount -t overlay -o lowerdir=/host,upperdir=/layers/upper,workdir=/layers/work root /merged ||
	die "no overlay over the host's file system"
mount -t tmpfs -o mode=755 run /merged/run
mkdir /merged/run/guest
mount -t 9p -o "$p9,cache=none" guest /merged/run/guest || die "the shared directory cannot be mounted"
umount /proc
mount --move /dev /merged/dev
exec switch_root /merged /run/guest/.guest/init
