#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package as a user gets it: installed by pip into an environment of its own, and tried with a real nanoctrl.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v ninja >/dev/null || { echo "skipped: ninja is not installed" && exit 77; }
python3 -m venv "$work/venv" || { echo "skipped: python3 has no venv" && exit 77; }
pip() {
	"$work/venv/bin/pip" --disable-pip-version-check --quiet "$@"
}
# Only what comes from the package registry can be missing here.
pip install pytest numpy 'cffi>=1.17' 'scikit-build-core>=0.11' >"$work/registry" 2>&1 || {
	cat "$work/registry"
	echo "skipped: the Python package registry cannot be reached"
	exit 77
}
# A copy: the tree stays as it is. Without git the build names no commit.
mkdir "$work/tree"
tar -C "$SLIME_SOURCE" --exclude=./build --exclude=./python/build --exclude=./.git -cf - . | tar -C "$work/tree" -xf -
pip install --no-build-isolation "$work/tree/python" >"$work/build" 2>&1 || {
	tail -n 60 "$work/build"
	exit 1
}
# Their own modules call our adapters; without torch they are unpacked, not installed.
unpack() {
	pip download --no-deps --dest "$work/wheels" "$1" >"$work/registry" 2>&1 || {
		cat "$work/registry"
		echo "skipped: the Python package registry does not give $1"
		exit 77
	}
	python3 -m zipfile -e "$work/wheels/${1%%=*}"-*.whl "$work/$2"
}
unpack lmcache==0.5.6 lmcache
unpack sglang==0.5.23 sglang
export SLIME_LMCACHE=$work/lmcache SLIME_SGLANG=$work/sglang
cp -r "$SLIME_SOURCE/python/tests" "$work/tests"
cd "$work"
timeout -k 10 500 "$work/venv/bin/python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=60 tests </dev/null
