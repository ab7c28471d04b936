#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages of a commit, in a directory: deploy/packages.sh deploy brings what is needed. The packages of
# another commit than HEAD have a version before that of its changelog, such as 0.1.0~1a2b3c4d5e6f, so that those of HEAD
# are an upgrade.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [[ $1 = -* ]]; then
	echo "usage: deploy/debian/build.sh DIRECTORY [COMMIT]" >&2
	exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
commit=$(git rev-parse --verify --short=12 "${2:-HEAD}^{commit}")
mkdir -p "$1"
out=$(cd "$1" && pwd)
# One place, whatever the directory is: paths do not get into the packages, and two builds give the same bytes.
tree=build/debian/slime
rm -rf build/debian
mkdir -p "$tree"
git archive "$commit" | tar -x -C "$tree"
cp -r "$tree/deploy/debian" "$tree/debian"
[ "$commit" = "$(git rev-parse --short=12 HEAD)" ] || sed -i "1s/)/~$commit)/" "$tree/debian/changelog"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
(cd "$tree" && DEB_BUILD_OPTIONS="noautodbgsym parallel=${JOBS:-$(nproc)}" dpkg-buildpackage --build=binary --unsigned-changes --unsigned-source)
cp build/debian/*.deb "$out"
