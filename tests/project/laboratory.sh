#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Label rdma where there is no guest, or one that dies: boot.sh and recorded.sh of tests/rdma, with another program in the
# place of the guest, and guest.sh without QEMU.
set -euo pipefail

rdma=${SLIME_SOURCE:?}/tests/rdma
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\t5\t0\ttrue\n' rdma-one rdma-two >"$work/list"
unset RDMA_LAB RDMA_TESTS

fail() {
	echo "FAILED: $*"
	cat "$work/out"
	exit 1
}

# What it reads is the runner, which gets --dir RESULTS --timeout S -- COMMAND...
runner() {
	{
		echo "#!/bin/bash"
		cat
	} >"$work/runner"
	chmod +x "$work/runner"
}

# ends STATUS COMMAND...
ends() {
	local status=0

	"${@:2}" >"$work/out" 2>&1 || status=$?
	[ "$status" -eq "$1" ] || fail "${*:2} ended with $status"
}

says() {
	grep -qxF -- "$1" "$work/out" || fail "it does not say '$1'"
}

# boot STATUS [VARIABLE=VALUE...], result STATUS NAME: of the runner's run.
boot() {
	ends "$1" env "${@:2}" RDMA_RUNNER="$work/runner" "$rdma/boot.sh" "$work/list" "$work/results"
}

result() {
	ends "$1" "$rdma/recorded.sh" "$work/results" "$2"
}

echo "-- what is missing is one line, and each test is skipped for it"
runner <<'END'
echo "some words"
echo "prepare.sh: skipped: xz is not installed"
exit 77
END
boot 77
result 77 rdma-one
says "skipped: prepare.sh: skipped: xz is not installed"
boot 1 RDMA_LAB=required
says "RDMA_LAB=required: this is a failure"

echo "-- what ended is what it was, and what did not end has the guest's last words"
runner <<'END'
: >"$2/devices"
echo fine >"$2/rdma-one.out"
echo 3 >"$2/rdma-one.status"
echo "it died"
exit 125
END
boot 0
result 3 rdma-one
says fine
result 1 rdma-two
says "it died"

echo "-- a guest that fails behind all of them, or before the first, is a failure of its own"
runner <<'END'
: >"$2/devices"
echo 0 >"$2/rdma-one.status"
echo 0 >"$2/rdma-two.status"
exit 126
END
boot 1
runner <<'END'
echo "no devices"
exit 1
END
boot 1
result 77 rdma-one

echo "-- only some of them"
runner <<'END'
: >"$2/devices"
echo 0 >"$2/rdma-two.status"
cut -f 1 "$2/list"
END
boot 0 RDMA_TESTS=two
says rdma-two
result 0 rdma-two
result 77 rdma-one

echo "-- the results of an earlier run are gone"
runner <<'END'
echo "prepare.sh: skipped: no kernel"
exit 77
END
boot 77
result 77 rdma-two

echo "-- without QEMU, also where all else was made before"
mkdir "$work/bin"
find /usr/bin/ -mindepth 1 -maxdepth 1 ! -name 'qemu-system-*' -exec ln -s -t "$work/bin" {} +
ends 77 env PATH="$work/bin" "$rdma/guest.sh" -- true
says "guest.sh: skipped: qemu-system-x86_64 is not installed (deploy/packages.sh test)"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "it says more"
