# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests of commands that look at RDMA devices: a sysfs in a folder of the test's own.
set -euo pipefail

bin=${SLIME_BIN:?the folder of the programs}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sys=$work/sys

fail() {
	echo "FAILED: $*"
	cat "$work/out" "$work/err"
	exit 1
}

# put FILE TEXT: below the root.
put() {
	mkdir -p "$sys/${1%/*}"
	printf '%s\n' "$2" >"$sys/$1"
}

# roce DEVICE NETDEV ADDRESS: an active port; the address as a GID.
roce() {
	local port=class/infiniband/$1/ports/1

	put "class/infiniband/$1/node_type" "1: CA"
	put "class/infiniband/$1/fw_ver" 20.31.1014
	put "$port/state" "4: ACTIVE"
	put "$port/link_layer" Ethernet
	put "$port/rate" "100 Gb/sec (4X EDR)"
	put "$port/gids/0" "$3"
	put "$port/gid_attrs/types/0" "RoCE v2"
	put "$port/gid_attrs/ndevs/0" "$2"
	put "class/net/$2/mtu" 4200
}

# run STATUS COMMAND OPTION...: a command of $program over that sysfs; its words are in $work/out and $work/err.
run() {
	local status=0

	"$bin/${program:?the program whose commands run}" "$2" --sysfs "$sys" "${@:3}" >"$work/out" 2>"$work/err" || status=$?
	[ "$status" -eq "$1" ] || fail "${*:2}: it ended with $status"
}

# says WORDS: on standard output.
says() {
	grep -q -- "$1" "$work/out" || fail "it does not say: $1"
}

# json EXPRESSION: true of the object d that was printed.
json() {
	python3 -c "import json, sys; d = json.load(open(sys.argv[1])); assert $1, d" "$work/out" ||
		fail "not so: $1"
}
