#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the tests. Ends with the closing lines of every ctest that ran.
set -uo pipefail

usage() {
	cat <<'END'
usage: tests/run.sh [--quick | --label NAME | --all | --coverage | --soak [SECONDS]]

  (nothing)      every test but those of label deploy under ASan and UBSan, label threads again under TSan, labels count and install
                 on the release build; under 20 minutes
  --quick        the inner loop: the dev build, without installing packages and without the labels
                 slow, fault, install, rdma, long, deploy; under 2 minutes when built
  --label NAME   one label, in the trees where it belongs; deploy: the packages, units and manifests, as root
  --all          everything, then labels long and deploy, the same tests built by clang, every fuzz target for 60 s
  --soak [S]     nanoctrl and Redis are killed at random under load for S seconds (300)
  --coverage     every test but those of labels slow, rdma, long and deploy, counted by gcov: the share of lines they execute

With CI=true a skipped test is a failure unless tests/allowed-skips names it. JOBS=n sets the parallelism.
RDMA_LAB=required makes it a failure when label rdma cannot run here (docs/testing.md).
END
}

die() {
	echo "run.sh: $*" >&2
	exit 1
}

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

mode=default
label=
soak=300
while [ $# -gt 0 ]; do
	case $1 in
	--quick) mode=quick ;;
	--all) mode=all ;;
	--coverage) mode=coverage ;;
	--soak)
		mode=soak
		if [[ ${2:-} =~ ^[0-9]+$ ]]; then
			soak=$2
			shift
		fi
		;;
	--label)
		[ $# -ge 2 ] || die "--label needs a name"
		mode=label
		label=$2
		shift
		;;
	-h | --help)
		usage
		exit
		;;
	*)
		usage >&2
		die "unknown argument: $1"
		;;
	esac
	shift
done

# What the default is promised to take, of two processors that nobody else wants.
LIMIT_S=1200

jobs=${JOBS:-$(nproc)}
# Many tests wait for leases and back-offs more than they compute: with one more than there are processors, these were
# idle for 40 % of the time.
at_once=${JOBS:-$((jobs + 2))}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
closings=$work/closings
: >"$closings"
failed=0
ran=0

step() {
	echo "== $*"
}

fail() {
	echo "run.sh: $*" >>"$closings"
	failed=1
}

# What is built of a preset: the tests of other labels do not run there.
targets() {
	case $1 in
	tsan) echo tests-threads ;;
	release) echo tests-count tests-install ;;
	fuzz) echo fuzz ;;
	*) echo all ;;
	esac
}

build() {
	local preset=$1
	local -a wanted

	read -ra wanted <<<"$(targets "$preset")"
	step "build $preset"
	cmake --preset "$preset" >"$work/configure" 2>&1 || {
		cat "$work/configure"
		return 1
	}
	cmake --build --preset "$preset" --parallel "$jobs" --target "${wanted[@]}"
}

# The tests of a tree that the filters let through. Without a filter every test but labels long and deploy, which have their own turn.
filters() {
	case $1 in
	every) echo "-LE ^(long|deploy)$" ;;
	quick) echo "-LE ^(slow|fault|install|rdma|long|deploy)$" ;;
	brisk) echo "-LE ^(slow|rdma|long|deploy)$" ;; # what a guest counts is lost
	*) echo "-L ^($1)$" ;;
	esac
}

count_tests() {
	ctest --preset "$1" -N "${@:2}" | sed -n 's/^Total Tests: //p'
}

# Names of tests that did not run, from ctest's JUnit file: whole programs, and cases inside a program ("test:case").
skipped_tests() {
	awk '
		/<testcase / { match($0, / name="[^"]*"/); name = substr($0, RSTART + 7, RLENGTH - 8) }
		/<skipped / { print name }
		/^\[  SKIPPED \] [a-z_0-9]+$/ { print name ":" $4 }' "$1" | sort -u
}

check_skips() {
	local name names

	names=$(skipped_tests "$2")
	# When label rdma cannot run here, all its tests are skipped for the reason that its boot gives.
	if grep -qx rdma-boot <<<"$names"; then
		names=$(grep -v '^rdma-' <<<"$names")
		tail -n 1 "build/$1/rdma/results/log" >>"$closings"
		names+=" rdma-boot"
	fi
	for name in $names; do
		if [ "${CI:-}" != true ] || grep -q "^${name}[[:space:]]" tests/allowed-skips; then
			echo "  skipped: $name" >>"$closings"
		else
			fail "$1: $name was skipped, and tests/allowed-skips does not name it"
		fi
	done
}

# gcc 12's TSan cannot place its shadow where the kernel randomises more than 28 bits of an address.
launcher() {
	if [ "$1" = tsan ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then
		echo "setarch --addr-no-randomize"
	fi
}

run_tests() {
	local preset=$1 what=$2 report=$work/$1.xml
	local -a filter launch

	read -ra filter <<<"$(filters "$what")"
	read -ra launch <<<"$(launcher "$preset")"
	step "test $preset: $what"
	if [ "$(count_tests "$preset" "${filter[@]}")" -eq 0 ]; then
		echo "no test of $what in this tree"
		return 0
	fi
	ran=1
	rm -f "$report"
	"${launch[@]}" ctest --preset "$preset" --parallel "$at_once" --output-junit "$report" "${filter[@]}" \
		2>&1 | tee "$work/log"
	[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
	echo "$preset, $what:" >>"$closings"
	sed -n '/^[0-9]*% tests passed/,$ { /^$/d; p }' "$work/log" |
		sed '/^Label Time Summary/,/^Total Test time/ { /^Total Test time/!d }' >>"$closings"
	check_skips "$preset" "$report"
}

build_and_test() {
	local preset=$1 what

	if ! build "$preset"; then
		fail "$preset does not build"
		return
	fi
	for what in "${@:2}"; do
		run_tests "$preset" "$what"
	done
}

# One target for a minute: what it said and how it ended go to files beside its corpus.
fuzz_one() {
	local target=$1 dir=$2

	mkdir "$dir"
	"$target" -max_total_time=60 -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/ "$dir" "$(cat "$target.corpus")" >"$dir.log" 2>&1
	echo $? >"$dir.status"
}

# As many targets at once as there are processors: each uses one.
fuzz() {
	local target name

	if ! build fuzz; then
		fail "fuzz does not build"
		return
	fi
	step "fuzz"
	for target in build/fuzz/fuzz/fuzz-*.corpus; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
			wait -n
		done
		target=${target%.corpus}
		fuzz_one "$target" "$work/${target##*/}" &
	done
	wait
	for target in build/fuzz/fuzz/fuzz-*.corpus; do
		name=$(basename "$target" .corpus)
		step "$name"
		tail -n 20 "$work/$name.log"
		[ "$(cat "$work/$name.status")" = 0 ] || fail "$name found a failure, kept in build/fuzz"
	done
}

case $mode in
quick)
	build_and_test dev quick
	;;
label)
	deploy/packages.sh test || exit 1
	case $label in
	deploy) deploy/packages.sh deploy || exit 1 ;;
	threads) build_and_test tsan threads ;;
	count | install) build_and_test release "$label" ;;
	esac
	build_and_test dev "$label"
	[ "$failed" -ne 0 ] || [ "$ran" -ne 0 ] || fail "no test has the label $label"
	;;
coverage)
	deploy/packages.sh test || exit 1
	find build/coverage -name '*.gcda' -delete 2>/dev/null
	build_and_test coverage brisk
	step "lines executed"
	tests/coverage.py build/coverage 2>&1 | tee -a "$closings"
	[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
	;;
soak)
	deploy/packages.sh test || exit 1
	if build dev; then
		step "soak"
		SLIME_BIN=$PWD/build/dev/bin SLIME_SOAK_S=$soak build/dev/tests/test-client-crash 2>&1 | tee "$work/log"
		[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
		grep -v '^\[' "$work/log" >>"$closings"
	else
		fail "dev does not build"
	fi
	;;
default | all)
	deploy/packages.sh test || exit 1
	build_and_test tsan threads
	build_and_test release 'count|install'
	if [ $mode = all ]; then
		build_and_test clang every
		fuzz
		build_and_test dev long
		deploy/packages.sh deploy && build_and_test dev deploy
	fi
	build_and_test dev every
	;;
esac

took=$(printf '%d min %02d s' $((SECONDS / 60)) $((SECONDS % 60)))
[ $mode != default ] || [ "$SECONDS" -le "$LIMIT_S" ] || took+=", more than the $((LIMIT_S / 60)) minutes that it should"
echo "run.sh: it took $took" >>"$closings"

step "result"
cat "$closings"
if [ "$failed" -ne 0 ]; then
	echo "run.sh: FAILED"
fi
exit "$failed"
