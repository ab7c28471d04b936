#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of this commit, built twice with the same bytes and looked at by lintian, and those of the commit
# before it, for tests of an upgrade. It compiles everything three times, which takes minutes. The other tests of packages
# take them from the build tree, or from $SLIME_DEBS.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

for tool in dpkg-buildpackage lintian; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done
[ -z "${SLIME_DEBS:-}" ] || skip "the packages are in SLIME_DEBS"
debs=$SLIME_BUILD/deploy/debs

# build TREE DIRECTORY [COMMIT]: none of the compiler's earlier results.
build() {
	CCACHE_DISABLE=1 nice "$1/deploy/debian/build.sh" "${@:2}" >"$work/build.err" 2>&1 || fail "the packages do not build"
}

say "build"
rm -rf "$debs"
build "$SLIME_SOURCE" "$debs/now"

say "the same bytes from another directory, in another time zone"
git clone --quiet --shared "$SLIME_SOURCE" "$work/elsewhere"
git -C "$work/elsewhere" checkout --quiet "$(git -C "$SLIME_SOURCE" rev-parse HEAD)"
(umask 027 && TZ=Pacific/Kiritimati LC_ALL=C JOBS=3 build "$work/elsewhere" "$work/again")
for package in "$debs/now"/*.deb; do
	cmp "$package" "$work/again/${package##*/}" || fail "two builds differ"
done
[ "$(ls "$debs/now")" = "$(ls "$work/again")" ] || fail "two builds make other packages"

say "lintian"
lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$debs/now"/*.deb || fail "lintian complains"

say "the commit before"
build "$work/elsewhere" "$debs/before" HEAD~1
