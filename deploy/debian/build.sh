#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages of the commit that is checked out, in a directory: deploy/packages.sh deploy brings what is
# needed.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 = -* ]]; then
	echo "usage: deploy/debian/build.sh DIRECTORY" >&2
	exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
# One place, whatever the directory is: paths do not get into the packages, and two builds give the same bytes.
tree=build/debian/slime
rm -rf build/debian
mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
cp -r "$tree/deploy/debian" "$tree/debian"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
(cd "$tree" && DEB_BUILD_OPTIONS="noautodbgsym parallel=${JOBS:-$(nproc)}" dpkg-buildpackage --build=binary --unsigned-changes --unsigned-source)
cp build/debian/*.deb "$out"
