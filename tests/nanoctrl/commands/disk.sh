#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl on a disk that is full: cli_disk.sh [CASE...]
# In a mount namespace of its own, since the disk is one.
if [ -z "${CLI_DISK:-}" ]; then
	alone=(unshare --mount)
	"${alone[@]}" true 2>/dev/null || alone=(unshare --user --map-root-user --mount)
	"${alone[@]}" true 2>/dev/null || exit 77
	CLI_DISK=1 exec "${alone[@]}" bash "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

case_a_full_disk_is_said_and_forgotten() {
	local disk=$dir/disk

	mkdir "$disk"
	mount -t tmpfs -o size=4m tmpfs "$disk"
	expect 0 started nc start --port 0 --data-dir "$disk/data" --set server.drain_accept=0
	! grep -q warning <<<"$(nc status)" || die "it warns of a disk with room"
	! dd if=/dev/zero of="$disk/others" bs=64k 2>/dev/null || die "the disk is not full"
	# Redis lives until it has something to write.
	expect 0 "warning: the disk of $disk/data has 0 KiB left, and the private Redis ends when it cannot write" nc status
	redis-cli -s "$disk/data/redis.sock" --user nanoctrl --pass "$(cat "$disk/data/redis.key")" set key "$(head -c 65536 /dev/zero | tr '\0' x)" >/dev/null 2>&1 || true
	until_says "ready: no" nc status
	expect 4 "redis log: $disk/data/redis.log" nc status
	expect 4 "warning: the disk of $disk/data has 0 KiB left, and the private Redis ends when it cannot write" nc status
	rm "$disk/others"
	until_says "ready: yes" nc status
	! grep -q -e warning -e "redis log" <<<"$(nc status)" || die "it warns still"
	expect 0 stopped nc stop
	umount "$disk"
}

run_cases "$@"
