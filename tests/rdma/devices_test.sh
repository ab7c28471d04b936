#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The laboratory itself: two devices that are up, with the GIDs that the tests count on, and perftest moves bytes between
# them.
set -euo pipefail

work=$(mktemp -d)
trap 'kill %% 2>/dev/null || true; rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	exit 1
}

# is_ready DEVICE ADDRESS
is_ready() {
	local port=/sys/class/infiniband/$1/ports/1 info

	info=$(ibv_devinfo -d "$1")
	grep -q 'PORT_ACTIVE' <<<"$info" || fail "$1 is not active: $info"
	grep -q 'active_mtu:.*4096' <<<"$info" || fail "the MTU of $1 is not 4096: $info"
	[ "$(<"$port/gid_attrs/types/1")" = "RoCE v2" ] || fail "GID 1 of $1 is not RoCE v2"
	[ "$(<"$port/gids/1")" = "$2" ] || fail "GID 1 of $1 is $(<"$port/gids/1"), not $2"
}

# between COMMAND OPTION...: perftest's server on rxe1, its client on rxe0.
between() {
	local -a command=("$1" -x 1 -F "${@:2}")

	"${command[@]}" -d rxe1 >"$work/server" 2>&1 &
	until ss -Hltn sport = :18515 | grep -q .; do
		kill -0 %% 2>/dev/null || fail "${command[*]}: $(cat "$work/server")"
	done
	"${command[@]}" -d rxe0 127.0.0.1 >"$work/client" 2>&1 || fail "${command[*]}: $(cat "$work/client")"
	wait %% || fail "${command[*]}: $(cat "$work/server")"
	echo "${command[*]}"
	grep -A 1 '#bytes' "$work/client"
}

is_ready rxe0 0000:0000:0000:0000:0000:ffff:0a4d:0001
is_ready rxe1 0000:0000:0000:0000:0000:ffff:0a4d:0002
between ib_write_bw -s 65536 -n 100
between ib_read_lat -s 64 -n 100
