# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests beside DLSlime's own control plane and agents, which come from the package index once for a build
# tree: $venv has their client, agents and server, the last as the executable `nanoctrl`.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

# shellcheck disable=SC2034 # for the test
here=$(dirname "${BASH_SOURCE[0]}")
export PYTHONDONTWRITEBYTECODE=1
venv=${SLIME_BUILD:?the build tree}/interop/venv
packages=(nanoctrl==0.1.0.post1 dlslime==0.1.23 httpx==0.28.1 redis==8.1.0)

install_packages() {
	rm -rf "$venv"
	mkdir -p "${venv%/*}"
	python3 -m venv "$venv" &&
		timeout 200 "$venv/bin/pip" install -q --disable-pip-version-check "${packages[@]}" &&
		echo "${packages[*]}" >"$venv/has"
}

# Sets up $venv with $packages, or skips the test.
get_packages() {
	mkdir -p "${venv%/*}"
	exec 9>"${venv%/*}/lock"
	flock 9
	if [ "$(cat "$venv/has" 2>/dev/null)" != "${packages[*]}" ]; then
		install_packages >"$work/pip.err" 2>&1 ||
			skip "the package index cannot be reached: $(tail -n 1 "$work/pip.err")"
	fi
	exec 9>&-
}

get_original() {
	get_packages
	"$venv/bin/python" -c 'import dlslime' >"$work/import.err" 2>&1 ||
		fail "what deploy/packages.sh test installs does not suffice to load dlslime"
}

# start_redis_at NAME: on a port of its own, in port_of[NAME].
start_redis_at() {
	take_port "$1"
	spawn "$1" redis-server --port "${port_of[$1]}" --bind 127.0.0.1 --save '' --dir "$work"
	wait_for 10 redis-cli -p "${port_of[$1]}" ping || fail "$1 does not answer"
}

# theirs_at REDIS, ours_at REDIS: the command of a server over that Redis, but for its port, in $command.
theirs_at() {
	command=(env NANOCTRL_RUST_LOG=error "NANOCTRL_RUNTIME_DIR=$work/theirs-$1" "$venv/bin/nanoctrl" server --host 127.0.0.1
		--redis-url "redis://127.0.0.1:${port_of[$1]}")
}

# shellcheck disable=SC2034 # command is for the test
ours_at() {
	command=("$bin/nanoctrl" server --runtime-dir "$work/ours-$1" --redis-url "redis://127.0.0.1:${port_of[$1]}"
		--set log.level=warn --set server.drain_accept=0)
}
