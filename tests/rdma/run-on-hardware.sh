#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Label rdma, and what bench/targets measures over RDMA, on the devices of this machine.
set -uo pipefail

usage() {
	cat <<'END'
usage: tests/rdma/run-on-hardware.sh [OPTION...] DEVICE [PEER [SECOND PEER-OF-SECOND]]

Runs the tests of label rdma on DEVICE, and those of links with two rails and of faults on DEVICE and PEER, and compares
with perftest between both; without PEER everything is between DEVICE and itself. Two more are the second rail of the row
rdma-rails, which is left out without them. All take their port 1. What disturbs the laboratory's wires, or counts on its
addresses, is left out. What each test said is kept in build/dev/rdma/hardware.

  --tests REGEX  only tests whose names match
  --no-bench     no measurements
  --rows NAME    of the measurements these alone: a row, or those that a pattern fits (rdma-*)
  --bin DIR      measured programs (build/release/bin)
  --targets OF   adapters or soft-RoCE: whose targets the measurements have; found out by default
  --list         say what would be run, on which devices, and run nothing
  --sysfs DIR    look for devices there instead; it serves tests

Needs the presets dev (the tests; SLIME_BUILD names its folder) and release (the measurements) to be built. Exits with 0 when
all that ran passed, and every row that could be measured met its target.
END
}

die() {
	echo "run-on-hardware.sh: $*" >&2
	exit 2
}

here=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" && pwd)
source=$(cd "$here/../.." && pwd)
build=${SLIME_BUILD:-$source/build/dev}
wanted=
bench=true
rows='rdma-*'
programs=
list=false
of=auto
sysfs=/sys
while [ $# -gt 0 ]; do
	case $1 in
	--tests)
		[ $# -ge 2 ] || die "--tests needs a pattern"
		wanted=$2
		shift
		;;
	--no-bench) bench=false ;;
	--rows | --bin)
		[ $# -ge 2 ] || die "$1 needs a value"
		case $1 in
		--rows) rows=$2 ;;
		--bin) programs=$2 ;;
		esac
		shift
		;;
	--list) list=true ;;
	--targets)
		[ $# -ge 2 ] || die "--targets needs a word"
		of=$2
		shift
		;;
	--sysfs)
		[ $# -ge 2 ] || die "--sysfs needs a folder"
		sysfs=$2
		shift
		;;
	-h | --help)
		usage
		exit
		;;
	-*) die "unknown option: $1" ;;
	*) break ;;
	esac
	shift
done
case $# in
1 | 2 | 4) ;;
*)
	usage >&2
	exit 2
	;;
esac
device=$1
peer=${2:-$1}
pairs=("$device" "$peer" "${@:3}")

for name in "${pairs[@]}"; do
	state=$sysfs/class/infiniband/$name/ports/1/state
	[ -e "$state" ] || die "there is no device $name: $(find "$sysfs/class/infiniband" -mindepth 1 -printf '%f ' 2>/dev/null)"
	grep -q ACTIVE "$state" || die "port 1 of $name is $(<"$state")"
done
[ -e "$build/rdma/tests" ] || die "no tests in $build: cmake --preset dev && cmake --build --preset dev"
results=$build/rdma/hardware
$list || {
	rm -rf "$results"
	mkdir -p "$results"
}
export SLIME_BUILD=$build SLIME_BIN=$build/bin SLIME_SOURCE=$source

# Their own scripts make devices, wires and addresses of soft-RoCE, or look for them.
is_of_the_laboratory() {
	case $1 in
	"$here"/* | */test-rdma-faults-wire | */test-verbs | */test-verbs-queue) return 0 ;;
	esac
	return 1
}

n_failed=0
n_left_out=0

# run_one NAME LIMIT COMMAND...
run_one() {
	local name=$1 limit=$2 status begin=$SECONDS word=passed
	shift 2

	$list && {
		printf '%s: %s\n' "$name" "$*"
		return
	}
	timeout --kill-after=5 "$limit" "$@" >"$results/$name.out" 2>&1 </dev/null
	status=$?
	case $status in
	0) ;;
	77) word="skipped: $(tail -n 1 "$results/$name.out")" ;;
	*)
		word="FAILED with $status: $results/$name.out"
		n_failed=$((n_failed + 1))
		;;
	esac
	printf '%-36s %4d s  %s\n' "$name" $((SECONDS - begin)) "$word"
}

# The suite takes its devices as --rails; a list there means two. Faults are those of links from one to the other. What
# repeats or is large need not be less here.
on_devices() {
	local -a words=()
	local rails="$device"

	[[ $1 != */test-rdma-faults-* ]] || rails=$device,$peer
	while [ $# -gt 0 ]; do
		if [ "$1" = --fewer ]; then
			shift
		elif [ "$1" = --rails ]; then
			[[ $2 != *,* ]] || rails=$device,$peer
			shift
		else
			words+=("$1")
		fi
		shift
	done
	case " ${words[*]} " in
	*" --transport rdma "*) words+=(--rails "$rails") ;;
	esac
	command=("${words[@]}")
}

echo "$(uname -r), ${pairs[*]}, $(date -u +%FT%TZ)"
while IFS=$'\t' read -r -a line; do
	[[ ${line[0]} =~ $wanted ]] || continue
	if is_of_the_laboratory "${line[3]}"; then
		n_left_out=$((n_left_out + 1))
		continue
	fi
	on_devices "${line[@]:3}"
	run_one "${line[0]}" "${line[1]}" "${command[@]}"
done <"$build/rdma/tests"
$list || echo "$n_failed failed, $n_left_out of the laboratory were left out"

if $bench; then
	options=(--only "$rows" --sysfs "$sysfs" --rdma-targets "$of" --rdma-devices "$(IFS=,; echo "${pairs[*]}")")
	[ -z "$programs" ] || options+=(--bin "$programs")
	! $list || options+=(--list)
	"$source/bench/targets" "${options[@]}" || n_failed=$((n_failed + 1))
fi
[ "$n_failed" -eq 0 ]
