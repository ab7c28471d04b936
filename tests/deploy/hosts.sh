# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tests of packages and roles: hosts, each a Debian that systemd boots in namespaces of its own, on one network
# without a way out. The script that sources this file runs again inside of namespaces, and all that it starts and mounts
# ends with it.
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/../e2e/cluster.sh"

debs=${SLIME_DEBS:-$SLIME_BUILD/deploy/debs}
debian=$SLIME_BUILD/deploy/debian

# The Debian of every host, made once: what our packages depend on is there, so a host needs no archive.
make_debian() {
	local packages

	packages=systemd,systemd-sysv,dbus,curl,openssh-server,python3,python3-apt,python3-cffi-backend,redis-tools
	packages+=,$("$SLIME_SOURCE/deploy/packages.sh" run --list | paste -sd,)
	mkdir -p "$SLIME_BUILD/deploy"
	exec 8>"$SLIME_BUILD/deploy/lock"
	flock 8
	if [ "$packages" != "$(cat "$debian.made" 2>/dev/null)" ]; then
		say "a Debian with what the packages depend on"
		rm -rf --one-file-system "$debian"
		mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$debian" 2>"$work/debian.err" ||
			skip "Debian's archive is out of reach: $(tail -n 2 "$work/debian.err")"
		chroot "$debian" systemctl -q disable ssh redis-server 2>/dev/null
		echo "$packages" >"$debian.made"
	fi
	exec 8>&-
}

if [ -z "${HOSTS_ALONE:-}" ]; then
	[ "$(id -u)" -eq 0 ] || skip "only root boots a Debian"
	for tool in mmdebstrap systemd-nspawn; do
		command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
	done
	compgen -G "$debs/now/*.deb" >/dev/null || fail "there are no packages in $debs: the test deploy-debs makes them"
	make_debian
	status=0
	HOSTS_ALONE=$work TMPDIR=$work setpriv --pdeathsig KILL -- \
		unshare --mount --net --pid --fork --kill-child --mount-proc bash "$0" "$@" || status=$?
	# A control group is empty when its host has ended.
	find /sys/fs/cgroup/systemd -depth -type d -path "*/${work##*/}-*" -exec rmdir {} +
	exit "$status"
fi

trap - EXIT # all processes and mounts of these namespaces end with this one, and the files are those of the first run
mount -t tmpfs tmpfs /run
mkdir "$work/hosts"
mount -t tmpfs tmpfs "$work/hosts"
ip link set lo up
ip link add hosts type bridge
ip address add 10.88.0.1/24 dev hosts
ip link set hosts up
# shellcheck disable=SC2034 # address is for the test
declare -A leader=() address=()

# boot HOST [COMMAND...]: the command is run before, with the root directory as its last argument.
boot() {
	local number=$((${#leader[@]} + 2)) root=$work/hosts/$1/root group

	mkdir -p "$work/hosts/$1"/{root,upper,work}
	mount -t overlay overlay -o "lowerdir=$debian,upperdir=$work/hosts/$1/upper,workdir=$work/hosts/$1/work" "$root"
	echo "$1" >"$root/etc/hostname"
	systemd-id128 new >"$root/etc/machine-id"
	[ $# -eq 1 ] || "${@:2}" "$root"

	ip netns add "$1"
	ip link add "host$number" type veth peer name eth0 netns "$1"
	ip link set "host$number" master hosts up
	address[$1]=10.88.0.$number
	ip -n "$1" link set lo up
	ip -n "$1" address add "${address[$1]}/24" dev eth0
	ip -n "$1" link set eth0 up

	# In one control group the systemd of each host would end the processes of the others.
	group=/sys/fs/cgroup/systemd/${HOSTS_ALONE##*/}-$1
	mkdir "$group"
	# shellcheck disable=SC2016 # the inner shell expands it
	spawn "$1" sh -c 'echo $$ >"$0"; exec "$@"' "$group/cgroup.procs" systemd-nspawn --quiet --boot --directory "$root" \
		--bind-ro="$debs:/packages" --register=no --keep-unit --network-namespace-path="/run/netns/$1" --console=pipe
	wait_for 20 has_booted "$1" || fail "$1 does not boot: $(tail -n 5 "$work/$1.out")"
}

has_booted() {
	leader[$1]=$(pgrep --parent "${pids[$1]}") &&
		[[ $(on "$1" systemctl is-system-running) =~ ^(running|degraded)$ ]]
}

# on HOST COMMAND...
on() {
	nsenter --all --target "${leader[$1]}" -- env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive "${@:2}"
}

# Instead of that of cluster.sh.
logs() {
	local host

	for host in "${!leader[@]}"; do
		echo "== $host"
		on "$host" journalctl --no-pager --boot --lines 40 --output short-monotonic --unit nanoctrl --unit 'peeragent*'
	done
}
