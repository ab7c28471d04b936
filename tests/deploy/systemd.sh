#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The units of deploy/systemd: systemd knows each setting, and nanoctrl's is shut off from what it does not need.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed: deploy/packages.sh deploy"

# An instance of the template stands for it; the programs are those of this build.
cd "$work"
for unit in nanoctrl.service peeragent.service peeragent@.service; do
	sed "s#/usr/bin/\(nanoctrl\|peeragent\)#$bin/\1#" "$SLIME_SOURCE/deploy/systemd/$unit" >"${unit/@/@node-a}"
done
cp peeragent@node-a.service peeragent@.service

systemd-analyze verify --recursive-errors=yes --man=no ./nanoctrl.service ./peeragent.service ./peeragent@node-a.service ||
	fail "systemd does not accept a unit"
systemd-analyze security --offline=true --threshold=30 ./nanoctrl.service >exposure || {
	cat exposure
	fail "nanoctrl.service is exposed"
}
tail -n 1 exposure

# The check itself finds what is wrong.
sed 's/^WatchdogSec/WatchdogSecs/' nanoctrl.service >wrong.service
if systemd-analyze verify --recursive-errors=yes --man=no ./wrong.service 2>wrong.err; then
	fail "a setting that does not exist is accepted"
fi
grep -q WatchdogSecs wrong.err || fail "the unknown setting is not named"

for unit in peeragent.service peeragent@node-a.service; do
	grep -qx LimitMEMLOCK=infinity "$unit" || fail "$unit limits the memory that RDMA can lock"
done
