#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/rdma/run-on-hardware.sh: which devices its tests and measurements are given, without any device.
set -euo pipefail

script=$SLIME_SOURCE/tests/rdma/run-on-hardware.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SLIME_BUILD=$work/build

fail() {
	echo "FAILED: $*"
	exit 1
}

says() {
	grep -qF -- "$1" "$work/out" || fail "it does not say '$1': $(cat "$work/out")"
}

# listed ARGUMENT...: what would be run.
listed() {
	"$script" --list --sysfs "$work/sys" "$@" >"$work/out" 2>&1 || fail "$* ended with $?: $(cat "$work/out")"
}

# refused WHAT ARGUMENT...
refused() {
	local status=0

	"$script" --list --sysfs "$work/sys" "${@:2}" >"$work/out" 2>&1 || status=$?
	[ "$status" -eq 2 ] || fail "${*:2}: it ended with $status"
	says "$1"
}

device() {
	mkdir -p "$work/sys/class/infiniband/$1/ports/1" "$work/sys/class/infiniband/$1/device"
	echo "$2" >"$work/sys/class/infiniband/$1/ports/1/state"
}

for name in a b c d rxe0; do
	device "$name" "4: ACTIVE"
done
device down "1: DOWN"
echo eth0 >"$work/sys/class/infiniband/rxe0/parent"
mkdir -p "$SLIME_BUILD/rdma"
printf '%s\t%s\t0\t%s\t--transport\trdma\t--fewer\t5\t--rails\t%s\n' rdma-one 5 /bin/one rxe0 rdma-two 5 /bin/two rxe0,rxe1 \
	>"$SLIME_BUILD/rdma/tests"

echo "one device is both ends"
listed a
says "rdma-one: /bin/one --transport rdma --rails a"
says "rdma-two: /bin/two --transport rdma --rails a,a"
says "perftest ib_read_bw --size 65536 --depth 128 --device a --server-device a"

echo "two pairs are the two rails"
listed a b c d
says "rdma-two: /bin/two --transport rdma --rails a,b"
says "rdma-rails  GB/s >= 0.9 adapters"
says "--device a,c --server-device b,d"
says "perftest ib_read_bw --size 65536 --depth 16 --qps 8 --device a --server-device b"
says "rdma-read-64k  GB/s >= 0.98 adapters"
! grep -q soft-RoCE "$work/out" || fail "$(cat "$work/out")"

echo "soft-RoCE is none, and whose targets they are may be said"
listed a rxe0
says "rdma-read-64k  GB/s >= 0.95 soft-RoCE"
listed --targets adapters a rxe0
says "rdma-read-64k  GB/s >= 0.98 adapters"

echo "only what is asked for"
listed --tests two --no-bench a b
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "$(cat "$work/out")"
says rdma-two
listed --tests none --rows rdma-write-lat-64 a b
says "perftest ib_write_lat --size 64 --device a --server-device b"
! grep -q rdma-read "$work/out" || fail "$(cat "$work/out")"

echo "it refuses what is not there"
refused "there is no device e" a e
refused "there is no device e" a b c e
refused "port 1 of down is 1: DOWN" down
refused "usage:" a b c
[ ! -e "$SLIME_BUILD/rdma/hardware" ] || fail "it made a folder of results"
