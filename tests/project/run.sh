#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh: what it makes of a label that no test has and of the time that it took, with others in the place of cmake
# and ctest, and of a case that was skipped behind much other output, with the real ones.
set -euo pipefail

source=${SLIME_SOURCE:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	cat "$work/out"
	exit 1
}

# A tree whose tests have label unit.
mkdir "$work/tests" "$work/deploy" "$work/bin"
cp "$source/tests/run.sh" "$work/tests/"
printf '#!/bin/sh\n' >"$work/deploy/packages.sh"
cp "$work/deploy/packages.sh" "$work/bin/cmake"
cat >"$work/bin/ctest" <<'END'
#!/bin/sh
n=0
report=/dev/null
while [ $# -gt 0 ]; do
	case $1 in
	--output-junit) report=$2 ;;
	-L) [ "$2" != '^(unit)$' ] || n=1 ;;
	esac
	shift
done
echo "Total Tests: $n"
: >"$report"
END
chmod +x "$work/deploy/packages.sh" "$work/bin/cmake" "$work/bin/ctest"

run() {
	PATH=$work/bin:$PATH "$work/tests/run.sh" --label "$1" >"$work/out" 2>&1
}

run unit || fail "a label that a test has"
grep -qx 'run.sh: it took 0 min [0-9][0-9] s' "$work/out" || fail "it does not say how long it took"
if run uint; then
	fail "a label that no test has passes"
fi
grep -qx 'run.sh: no test has the label uint' "$work/out" || fail "it does not say that nothing ran"

# The whole of it, with a limit that is over at once; no test is there.
cp "$work/tests/run.sh" "$work/run.sh"
sed -i 's/^LIMIT_S=.*/LIMIT_S=-60/' "$work/tests/run.sh"
PATH=$work/bin:$PATH "$work/tests/run.sh" >"$work/out" 2>&1 || fail "the whole of it"
grep -q 'it took 0 min [0-9][0-9] s, more than the -1 minutes that it should$' "$work/out" || fail "it does not say that it took too long"
mv "$work/run.sh" "$work/tests/"

cp "$source/CMakePresets.json" "$work/"
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(skips LANGUAGES NONE)
enable_testing()
add_test(NAME skips COMMAND sh -c "seq 1000; echo '[  SKIPPED ] case__of_many'; seq 1000")
set_tests_properties(skips PROPERTIES LABELS unit)
END
: >"$work/tests/allowed-skips"
rm "$work/bin/cmake" "$work/bin/ctest"
CI=true run unit && fail "a skip that nobody allowed passes"
grep -q 'skips:case__of_many' "$work/out" || fail "it does not say which case was skipped"
echo 'skips:case__of_many  a reason' >"$work/tests/allowed-skips"
CI=true run unit || fail "a skip that is allowed"
