#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages in a Debian of nothing but systemd, by piuparts: installed with what they depend on, purged, and
# upgraded from those of the commit before. It compares all files before and after, also those of maintainer scripts.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

[ "$(id -u)" -eq 0 ] || skip "only root installs packages"
for tool in piuparts mmdebstrap dpkg-scanpackages; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done
debs=${SLIME_DEBS:-$SLIME_BUILD/deploy/debs}
compgen -G "$debs/now/*.deb" >/dev/null || fail "there are no packages in $debs: the test deploy-debs makes them"
chmod 755 "$work"
# systemd makes files of its own when it is installed.
mmdebstrap --quiet --variant=minbase --include=systemd bookworm "$work/debian.tar.gz" 2>"$work/debian.err" ||
	skip "Debian's archive is out of reach: $(tail -n 2 "$work/debian.err")"
cp -r "$debs/before" "$work/archive"
(cd "$work/archive" && dpkg-scanpackages . >Packages 2>/dev/null)

piuparts --basetgz "$work/debian.tar.gz" --distribution bookworm --no-eatmydata --tmpdir "$work" --bindmount "$work/archive" \
	--extra-repo "deb [trusted=yes] file://$work/archive ./" "$debs/now"/*.deb >"$work/piuparts.log" 2>&1 || {
	grep -A 12 -E 'ERROR|FAIL' "$work/piuparts.log"
	fail "piuparts"
}
grep -o 'PASS: .*' "$work/piuparts.log"
grep -q 'PASS: .*pgrad' "$work/piuparts.log" || fail "nothing was upgraded"
