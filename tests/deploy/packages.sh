#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: built, looked at by lintian, installed in a fresh Debian, where systemd boots and starts the
# units, which are then reloaded, crashed, hung and stopped; then purged. It takes minutes: it compiles everything, and a
# Debian is fetched.
set -euo pipefail

source=${SLIME_SOURCE:?}
packages=${SLIME_DEBS:-$SLIME_BUILD/deploy/debs}
root=
work=$(mktemp -d)
cleanup() {
	[ -z "$root" ] || rm -rf --one-file-system "$root"
	rm -rf "$work"
}
trap cleanup EXIT

say() {
	echo "-- $*"
}

fail() {
	echo "FAILED: $*"
	exit 1
}

skip() {
	echo "skipped: $*"
	exit 77
}

[ "$(id -u)" -eq 0 ] || skip "only root installs packages and boots a Debian"
for tool in dpkg-buildpackage lintian mmdebstrap systemd-nspawn; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done

if [ -z "${SLIME_DEBS:-}" ]; then
	say "build"
	rm -rf "$packages"
	nice "$source/deploy/debian/build.sh" "$packages" >"$work/build" 2>&1 || {
		tail -n 30 "$work/build"
		fail "the packages do not build"
	}
fi

say "lintian"
lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$packages"/*.deb || fail "lintian complains"

say "a fresh Debian"
root=$work/root
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,curl bookworm "$root" 2>"$work/bootstrap" || {
	tail -n 5 "$work/bootstrap"
	root=
	skip "Debian's archive is out of reach"
}

# in_root COMMAND...: no service starts there.
in_root() {
	chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"
}

say "install"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
in_root sh -c 'apt-get -qq update && apt-get -qq install --yes --no-install-recommends /packages/*.deb' >"$work/install" 2>&1 || {
	tail -n 20 "$work/install"
	fail "the packages cannot be installed"
}
in_root systemctl -q disable redis-server.service 2>/dev/null # it is a program to nanoctrl, which runs its own
for user in _nanoctrl _peeragent; do
	in_root getent passwd $user >/dev/null || fail "there is no user $user"
done
for program in nanoctrl peeragent slime-bench slime-cache slime; do
	in_root $program --version >/dev/null || fail "$program does not run"
done

in_root python3 -c 'import libslime' || fail "there is no Python module"
in_root sh -c 'ldd /usr/lib/*/slime/nixl/libplugin_SLIME.so' >"$work/nixl" || fail "no back end for NIXL"
! grep 'not found' "$work/nixl" || fail "the back end for NIXL lacks a library"

say "boot"
rm "$root/usr/sbin/policy-rc.d"
sed -i 's/change-me/node-a/' "$root/etc/slime/peeragent.yaml"
sed 's/node-a/node-b/' "$root/etc/slime/peeragent.yaml" >"$root/etc/slime/node-b.yaml"
install -m 755 "$source/tests/deploy/inside.sh" "$root/inside.sh"
cat >"$root/etc/systemd/system/trial.service" <<'END'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/inside.sh
StandardOutput=file:/trial.out
StandardError=file:/trial.err
ExecStopPost=systemctl --no-block poweroff
[Install]
WantedBy=default.target
END
in_root systemctl -q enable trial.service 2>/dev/null
# no watchdog waits for long here
mkdir "$root/etc/systemd/system/"{nanoctrl,peeragent}.service.d
printf '[Service]\nWatchdogSec=3\n' | tee "$root/etc/systemd/system/"{nanoctrl,peeragent}.service.d/soon.conf >/dev/null
timeout 240 systemd-nspawn -q -b -D "$root" --register=no --keep-unit --private-network >"$work/console" 2>&1 </dev/null ||
	tail -n 20 "$work/console"
cat "$root/trial.out" || fail "it did not boot"
grep -qx 'all of it' "$root/trial.out" || {
	tail -n 40 "$root/trial.err"
	fail "inside the booted Debian"
}

say "purge"
# shellcheck disable=SC2016 # dpkg-query expands it
mapfile -t ours < <(in_root dpkg-query -W -f '${Package} ${source:Package}\n' | awk '$2 == "slime" { print $1 }')
[ "${#ours[@]}" -eq "$(find "$packages" -name '*.deb' | wc -l)" ] || fail "not all packages are installed: ${ours[*]}"
in_root apt-get -qq purge --yes "${ours[@]}" >"$work/purge" 2>&1 || {
	tail -n 20 "$work/purge"
	fail "the packages cannot be purged"
}
rm -f "$root/etc/slime/node-b.yaml"
rmdir "$root/etc/slime" 2>/dev/null || true
left=$(in_root find /etc /usr /lib/systemd /var/lib \( -name '*nanoctrl*' -o -name '*peeragent*' -o -name '*slime*' \) \
	-not -path '/var/lib/dpkg/*' -not -path '/etc/systemd/system/*.service.d*')
[ -z "$left" ] || fail "a purge leaves $left"
