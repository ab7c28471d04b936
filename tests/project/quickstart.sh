#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/quickstart.sh --rdma where no RDMA device can be used: it goes on in a virtual machine. Programs, packages and the
# guest are stand-ins here; in a real guest it runs in tests/rdma/quickstart_test.sh.
set -euo pipefail

source=${SLIME_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
export WORK=$work TMPDIR=$work/tmp SLIME_BIN=$work/bin

fail() {
	echo "FAILED: $*"
	cat "$work/out"
	exit 1
}

# Where the script is it looks for all others.
mkdir -p "$tree/deploy" "$tree/tests/rdma" "$work/bin" "$work/guest" "$TMPDIR"
cp "$source/deploy/quickstart.sh" "$tree/deploy/"

# script FILE: what it does is read.
script() {
	{
		echo "#!/usr/bin/env bash"
		cat
	} >"$1"
	chmod +x "$1"
}

# packages.sh PURPOSE [--missing]: one is missing until it was installed.
script "$tree/deploy/packages.sh" <<'END_OF_SCRIPT'
echo "packages $*" >>"$WORK/calls"
if [ "${2:-}" = --missing ]; then
	[ -e "$WORK/installed" ] || echo qemu
else
	: >"$WORK/installed"
fi
END_OF_SCRIPT
# The guest's devices are there once they were made.
script "$tree/tests/rdma/devices.sh" <<'END_OF_SCRIPT'
: >"$WORK/devices"
END_OF_SCRIPT
script "$work/bin/slime" <<'END_OF_SCRIPT'
echo "slime $*" >>"$WORK/calls"
[ "$1" = devices ] && [ -e "$WORK/devices" ]
END_OF_SCRIPT
script "$work/bin/slime-bench" <<'END_OF_SCRIPT'
echo "slime-bench $*" >>"$WORK/calls"
exit 1
END_OF_SCRIPT
script "$work/bin/nanoctrl" <<'END_OF_SCRIPT'
echo "nanoctrl $*" >>"$WORK/calls"
exit 1
END_OF_SCRIPT

# guest STATUS: what stands for guest.sh runs the command, whose files are lost, and ends with that.
guest() {
	script "$tree/tests/rdma/guest.sh" <<END_OF_SCRIPT
[ ! -e "\$WORK/in_guest" ] || exit 99 # one in another: without end
: >"\$WORK/in_guest"
echo "guest" >>"\$WORK/calls"
while [ "\$1" != -- ]; do shift; done
shift
TMPDIR=\$WORK/guest "\$@" >"\$WORK/inside" 2>&1
exit $1
END_OF_SCRIPT
}

# run STATUS OPTION...
run() {
	local status=0

	rm -f "$work/devices" "$work/installed" "$work/in_guest" "$work/calls"
	: >"$work/calls"
	"$tree/deploy/quickstart.sh" --no-build "${@:2}" >"$work/out" 2>&1 </dev/null || status=$?
	[ "$status" -eq "$1" ] || fail "$* ended with $status"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "it left $(ls "$TMPDIR")"
}

called() {
	grep -qx -- "$1" "$work/calls" || fail "it did not call $1"
}

echo "-- what a guest takes is installed, and the same script goes on there with the same programs"
guest 0
run 0 --rdma
called "packages guest --missing"
called "packages guest"
called guest
grep -q 'no RDMA device can be used here' "$work/out" || fail "it does not say why"
called 'nanoctrl start .*'
[ "$(grep -cx 'slime devices' "$work/calls")" -eq 2 ] || fail "it is not --rdma in the guest"
grep -q 'FAILED' "$work/inside" || fail "the script in the guest did not get as far as nanoctrl: $(cat "$work/inside")"

echo "-- how the guest ends is how it ends"
guest 77
run 77 --rdma

echo "-- with --keep nothing would be left of it"
run 1 --rdma --keep
grep -q 'FAILED: .*without --keep' "$work/out" || fail "it does not say why"
! grep -qx guest "$work/calls" || fail "it started a guest"

echo "-- what it starts in the guest is there"
for file in devices guest; do
	[ -x "$source/tests/rdma/$file.sh" ] || fail "tests/rdma/$file.sh"
done
