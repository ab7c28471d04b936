#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl builds without compat and passes its own tests and those of its client: no_compat.sh [REGEX of tests]
set -euo pipefail

regex=${1:-^(nanoctrl|client|fuzz-nanoctrl)}
build=${SLIME_BUILD:?}/no-compat

cd "${SLIME_SOURCE:?}"
cmake --preset dev -B "$build" -DNANOCTRL_COMPAT=OFF >/dev/null
mapfile -t tests < <(cd "$build" && ctest -N -R "$regex" | sed -n 's/^ *Test *#[0-9]*: //p')
[ "${#tests[@]}" -gt 40 ] || {
	echo "no_compat.sh: only ${#tests[@]} tests match $regex" >&2
	exit 1
}
mapfile -t targets < <(ninja -C "$build" -t targets all | sed -n 's/^\(test-[^ :\/]*\): phony.*/\1/p' | grep -xF -f <(printf 'test-%s\n' "${tests[@]}"))
cmake --build "$build" --target nanoctrl "${targets[@]}"
cd "$build"
ctest --output-on-failure --parallel 2 -R "$regex" -LE '^(long|rdma|deploy)$'
