#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs inside a booted Debian that has the packages: packages.sh says what for. Its last line is "all of it".
set -euo pipefail

say() {
	echo "-- $*"
}

fail() {
	echo "FAILED: $*"
	systemctl status --no-pager nanoctrl peeragent >&2 || true
	journalctl --no-pager -b -n 60 >&2 || true
	exit 1
}

wait_for() { # SECONDS COMMAND...
	local deadline=$((SECONDS + $1))
	shift

	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.1
	done
}

pid_of() {
	systemctl show -P MainPID "$1"
}

active_with_another_pid() { # UNIT PID
	systemctl -q is-active "$1" && [ "$(pid_of "$1")" != "$2" ] && [ "$(pid_of "$1")" != 0 ]
}

url=http://127.0.0.1:3000

say "nanoctrl started with the system"
wait_for 30 systemctl -q is-active nanoctrl || fail "nanoctrl is not active"
curl -sf $url/readyz >/dev/null || fail "nanoctrl is active and not ready"
[ "$(stat -c %U /var/lib/nanoctrl/redis.key)" = _nanoctrl ] || fail "its Redis is not in /var/lib/nanoctrl"
systemctl -q is-active redis-server && fail "redis-server runs as a service"
systemctl -q is-active peeragent && fail "an agent that nobody named runs"

say "start of agents waits until they are registered"
systemctl start peeragent peeragent@node-b
for agent in node-a node-b; do
	curl -sf "$url/v1/agents/$agent?scope=default" >/dev/null || fail "$agent is active and not registered"
done
awk '/^Max locked memory/ { exit $4 != $5 }' "/proc/$(pid_of peeragent)/limits" || fail "memlock is not raised"
[ -e "/var/lib/peeragent/default:node-a.key" ] || fail "no owner key in /var/lib/peeragent"

say "reload"
pid=$(pid_of peeragent)
sed -i 's/^regions: .*/regions: [{ name: kv, size: 64KiB, access: [read] }]/' /etc/slime/peeragent.yaml
systemctl reload peeragent nanoctrl
wait_for 10 curl -sf "$url/v1/agents/node-a/regions/kv?scope=default" || fail "the reload does not add the region"
[ "$(pid_of peeragent)" = "$pid" ] || fail "a reload restarts"

say "crash"
for unit in peeragent nanoctrl; do
	pid=$(pid_of $unit)
	kill -KILL "$pid"
	wait_for 30 active_with_another_pid $unit "$pid" || fail "$unit does not come back"
done
curl -sf "$url/v1/agents/node-a/regions/kv?scope=default" >/dev/null || fail "what was there before the crash is lost"

say "hang"
for unit in peeragent nanoctrl; do
	pid=$(pid_of $unit)
	kill -STOP "$pid"
	wait_for 60 active_with_another_pid $unit "$pid" || fail "$unit that hangs is not restarted"
done
wait_for 30 curl -sf $url/readyz || fail "nanoctrl is not ready"

say "the Python module"
python3 -c 'import libslime; print(bytes(libslime.Context().allocate(4096).region().view[:1]))' >/dev/null || fail "it does not work"

say "a file that cannot be used is not tried again"
echo 'nonsense: 1' >>/etc/slime/node-b.yaml
systemctl restart peeragent@node-b && fail "it starts with a file that cannot be used"
[ "$(systemctl show -P NRestarts peeragent@node-b)" = 0 ] || fail "it is started again and again"

say "stop"
systemctl stop peeragent nanoctrl
for unit in peeragent nanoctrl; do
	[ "$(systemctl show -P Result $unit)" = success ] || fail "$unit: $(systemctl show -P Result $unit)"
done
grep -lxE 'redis-server|nanoctrl|peeragent' /proc/[0-9]*/comm && fail "a process is left"
echo "all of it"
