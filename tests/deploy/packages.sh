#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages on one host, where systemd starts the units: the steps of docs/operations.md for the first start,
# another agent and the removal; between them the units are reloaded, crashed, hung and stopped.
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

# on HOST COMMAND..., for steps that contain what a shell expands.
sh_on() {
	on "$1" sh -euc "$2"
}
pid_of() {
	on host systemctl show -P MainPID "$1"
}
active_with_another_pid() { # UNIT PID
	on host systemctl -q is-active "$1" && [ "$(pid_of "$1")" != "$2" ] && [ "$(pid_of "$1")" != 0 ]
}
# No process of ours is left.
nothing_runs() {
	local name

	for name in redis-server nanoctrl peeragent; do
		! pgrep --ns "${leader[host]}" --nslist pid -x $name >/dev/null || fail "$name still runs"
	done
}
answers() {
	on host curl -sf "http://127.0.0.1:3000/$1"
}

boot host
say "first start"
sh_on host 'apt-get -qq install --yes ./packages/now/*.deb' >"$work/install.err" 2>&1 || fail "$(tail -n 20 "$work/install.err")"
wait_for 30 answers readyz || fail "nanoctrl is not ready"
on host systemctl -q is-active redis-server && fail "redis-server runs as a service"
on host systemctl -q is-active peeragent && fail "an agent without a name runs"
[ "$(on host stat -c %U /var/lib/nanoctrl/redis.key)" = _nanoctrl ] || fail "its Redis is not in /var/lib/nanoctrl"
for program in nanoctrl peeragent slime-bench slime-cache slime; do
	on host $program --version >/dev/null || fail "$program does not run"
done
sh_on host 'ldd /usr/lib/*/slime/nixl/libplugin_SLIME.so' >"$work/nixl" || fail "no back end for NIXL"
! grep 'not found' "$work/nixl" || fail "the back end for NIXL lacks a library"
on host python3 -c 'import libslime; print(bytes(libslime.Context().allocate(4096).region().view[:1]))' >/dev/null ||
	fail "the Python module does not work"

say "an agent; its start waits until it is registered"
on host sed -i 's/change-me/node-a/' /etc/slime/peeragent.yaml
on host systemctl start peeragent
answers 'v1/agents/node-a?scope=default' >/dev/null || fail "node-a is active and not registered"
awk '/^Max locked memory/ { exit $4 != $5 }' "/proc/$(pgrep --ns "${leader[host]}" --nslist pid -x peeragent)/limits" ||
	fail "the limit of locked memory is not raised"
on host test -e /var/lib/peeragent/default:node-a.key || fail "no owner key in /var/lib/peeragent"

say "a second agent"
sh_on host 'sed "s/node-a/node-b/; s/^links:.*/links: [{ to: node-a }]/" /etc/slime/peeragent.yaml >/etc/slime/node-b.yaml'
on host systemctl start peeragent@node-b
answers 'v1/agents/node-b?scope=default' >/dev/null || fail "node-b is active and not registered"
on host nanoctrl obs links --address http://127.0.0.1:3000 --wait 20s >"$work/links"
grep -q shm "$work/links" || fail "they are not linked over shared memory: $(cat "$work/links")"

say "reload"
pid=$(pid_of peeragent)
on host sed -i 's/^regions: .*/regions: [{ name: kv, size: 64KiB, access: [read] }]/' /etc/slime/peeragent.yaml
on host systemctl reload peeragent nanoctrl
wait_for 10 answers 'v1/agents/node-a/regions/kv?scope=default' || fail "the reload does not add the region"
[ "$(pid_of peeragent)" = "$pid" ] || fail "a reload restarts"

say "crash"
for unit in peeragent nanoctrl; do
	pid=$(pid_of $unit)
	on host sh -c "kill -KILL $pid"
	wait_for 30 active_with_another_pid $unit "$pid" || fail "$unit does not come back"
done
wait_for 10 answers 'v1/agents/node-a/regions/kv?scope=default' || fail "what was there before the crash is lost"

say "hang"
# The watchdog is that of the unit, and waits only as long as is needed here.
for unit in peeragent nanoctrl; do
	[ "$(on host systemctl show -P WatchdogUSec $unit)" = 30s ] || fail "$unit has no watchdog of 30 s"
	sh_on host "mkdir -p /run/systemd/system/$unit.service.d; printf '[Service]\nWatchdogSec=3\n' >/run/systemd/system/$unit.service.d/soon.conf"
done
on host systemctl daemon-reload
on host systemctl restart nanoctrl peeragent
for unit in peeragent nanoctrl; do
	pid=$(pid_of $unit)
	on host sh -c "kill -STOP $pid"
	wait_for 30 active_with_another_pid $unit "$pid" || fail "$unit that hangs is not restarted"
done
wait_for 30 answers readyz || fail "nanoctrl is not ready"

say "a file that cannot be used is not tried again"
for unit in peeragent@node-b nanoctrl; do
	sh_on host "echo 'nonsense: 1' >>/etc/slime/${unit#*@}.yaml"
	on host systemctl restart $unit && fail "$unit starts with a file that cannot be used"
	on host systemctl -q is-failed $unit || fail "$unit is started again and again"
	on host sed -i '/nonsense/d' "/etc/slime/${unit#*@}.yaml"
done
on host systemctl start nanoctrl

say "stop"
on host systemctl stop peeragent nanoctrl
for unit in peeragent nanoctrl; do
	[ "$(on host systemctl show -P Result $unit)" = success ] || fail "$unit: $(on host systemctl show -P Result $unit)"
done
nothing_runs

say "removal, while they run"
on host systemctl start nanoctrl peeragent
# shellcheck disable=SC2016 # dpkg-query expands it
mapfile -t ours < <(on host dpkg-query -W -f '${Package} ${source:Package}\n' | awk '$2 == "slime" { print $1 }')
[ "${#ours[@]}" -eq "$(find "$debs/now" -name '*.deb' | wc -l)" ] || fail "not all packages are installed: ${ours[*]}"
on host rm /etc/slime/node-b.yaml
on host apt-get -qq purge --yes "${ours[@]}" >"$work/purge.err" 2>&1 || fail "$(tail -n 20 "$work/purge.err")"
nothing_runs
left=$(on host find /etc /usr /lib/systemd /var/lib \( -name '*nanoctrl*' -o -name '*peeragent*' -o -name '*slime*' \) \
	-not -path '/var/lib/dpkg/*')
[ -z "$left" ] || fail "a purge leaves $left"
