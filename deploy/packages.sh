#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The one list of Debian 12 packages, by purpose. Installs what is missing: without recommended packages,
# without questions, and without starting a service (redis-server is a program to us, not a daemon).
set -euo pipefail

usage() {
	cat <<'END'
usage: deploy/packages.sh PURPOSE [--install|--list|--missing]

  run      what the built programs need
  build    run, and what builds them
  guest    run, and the virtual machine with RDMA devices in software: tests/rdma/guest.sh
  test     build, guest, and what tests/run.sh needs
  deploy   test, and what makes and tries packages, units and manifests
  bench    build, and the peers that slime-bench and bench/targets measure beside us

  --install   install what is missing (the default); as root, or through sudo
  --list      print the packages of this purpose
  --missing   print those of them that are not installed
END
}

die() {
	echo "packages.sh: $*" >&2
	exit 1
}

# One package a line, with the reason it is here.
packages_run() {
	only_names <<'END'
ibverbs-providers        # libibverbs' half of each RDMA driver
libevent-core-2.1-7      # event loops
libevent-extra-2.1-7     # name resolution, the agent's metrics page
libhiredis0.14           # reads what Redis answers
libibverbs1              # RDMA
libjansson4              # JSON
libssl3                  # HMAC of greetings, hashes
libxxhash0               # checksums of pages
libyaml-0-2              # configuration files
redis-server             # nanoctrl's embedded store
END
}

packages_build() {
	packages_run
	only_names <<'END'
cmake                    # 3.25 or later, and ctest
gcc                      # C17
git                      # the commit that --version and results name
libc6-dev
libevent-dev
libhiredis-dev
libibverbs-dev
libjansson-dev
libssl-dev
libxxhash-dev
libyaml-dev
ninja-build
pkg-config
END
}

packages_guest() {
	packages_run
	only_names <<'END'
busybox-static           # its first commands
cpio                     # the initrd
ibverbs-utils            # what libibverbs says of devices
iproute2                 # makes the devices
kmod                     # which modules its kernel needs
qemu-system-x86          # the machine
util-linux               # flock, setpriv
xz-utils                 # unpacks its kernel
END
}

packages_test() {
	packages_build
	packages_guest
	only_names <<'END'
binutils                 # nm and objdump: symbols of the library
clang                    # the second compiler; fuzzing
clang-format-14          # layout
curl                     # HTTP requests that no client of ours would send
faketime                 # a Redis whose clock jumps
fish                     # completions of the programs
g++                      # the C++ consumer of the installed library
gnuplot-nox              # slime-bench plot
iproute2                 # network namespaces of the fault tests
libclang-rt-14-dev       # clang's sanitizer and fuzzing runtimes; clang only recommends it
libcmocka-dev            # unit tests
libnuma1                 # another system's agents, beside ours
perftest                 # others' programs over the guest's devices
procps                   # ps, of the tests with real processes
python3                  # reads the JSON that slime-bench writes
python3-dev              # the Python package
python3-venv             # clients and servers of others, beside ours
redis-tools              # redis-cli looks into the store
shellcheck               # scripts
strace                   # counts system calls
util-linux               # flock, setarch, setpriv, unshare
valgrind                 # counts instructions
zsh                      # completions of the programs
END
}

packages_deploy() {
	packages_test
	only_names <<'END'
ansible-core             # runs the role
buildah                  # the image
debhelper                # Debian packages
dh-python                # the package of the Python module
dpkg-dev
fakeroot                 # a package's files belong to root
lintian                  # looks for mistakes in packages
mmdebstrap               # a Debian to install packages in
munge                    # Slurm's programs know each other by it
openssh-client           # how the role reaches its hosts
piuparts                 # installs, upgrades and purges packages
podman                   # runs the image
prometheus               # promtool: rules and what servers export
python3-cffi             # makes the Python module
runc                     # what podman runs with where control groups are of both versions
skopeo                   # looks at images
slurm-wlm                # runs prolog, epilog and a job
systemd                  # systemd-analyze looks at units
systemd-container        # boots that Debian
umoci                    # unpacks images
END
}

packages_bench() {
	packages_build
	only_names <<'END'
g++                      # gRPC's API is C++
gnuplot-nox              # slime-bench plot
libgrpc++-dev            # a peer: gRPC
libprotobuf-dev
libucx-dev               # a peer: UCX, by its library
libzmq3-dev              # a peer: ZeroMQ
protobuf-compiler
protobuf-compiler-grpc
python3                  # bench/targets
python3-venv             # peers from PyPI: bench/baselines/setup.sh
ucx-utils                # a peer: UCX, with its ucx_perftest
END
}

only_names() {
	sed 's/ *#.*//'
}

installed() {
	[[ " $(dpkg-query -W -f='${db:Status-Status} ' "$1" 2>/dev/null)" == *" installed "* ]]
}

missing() {
	local package

	for package in "$@"; do
		installed "$package" || echo "$package"
	done
}

# Package scripts ask this file before they start a service. A policy that forbids it already stays as it is; any
# other is set aside until we are done.
policy=/usr/sbin/policy-rc.d
policy_aside=$policy.before-slime

forbid_services() {
	if [ -x "$policy" ]; then
		local answer=0

		"$policy" redis-server start >/dev/null 2>&1 || answer=$?
		if [ "$answer" -eq 101 ]; then
			return
		fi
		mv "$policy" "$policy_aside"
	fi
	trap allow_services EXIT
	printf '#!/bin/sh\n# deploy/packages.sh installs packages: no service starts.\nexit 101\n' >"$policy"
	chmod 755 "$policy"
}

allow_services() {
	rm -f "$policy"
	if [ -e "$policy_aside" ]; then
		mv "$policy_aside" "$policy"
	fi
}

apt_get() {
	apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# Package lists may be absent, or name versions that the mirror has replaced: they are fetched when an install fails.
install_packages() {
	local said

	said=$(apt_get install --yes --no-install-recommends "$@" 2>&1) && return
	echo "packages.sh: fetching package lists"
	said=$(apt_get update 2>&1 && apt_get install --yes --no-install-recommends "$@" 2>&1) && return
	die "apt-get failed: $said"
}

# As root, one at a time: two of us would see each other's policy as the machine's own.
install_as_root() {
	exec 9>/run/lock/slime-packages.lock
	flock 9
	if [ -e "$policy_aside" ]; then
		allow_services # an earlier run was killed
	fi
	mapfile -t wanted < <(missing "$@")
	[ "${#wanted[@]}" -gt 0 ] || return 0

	forbid_services
	export DEBIAN_FRONTEND=noninteractive
	install_packages "${wanted[@]}"
	# Not started now, and not at the next boot either: the service was not what was asked for.
	if [[ " ${wanted[*]} " == *" redis-server "* ]] && command -v systemctl >/dev/null; then
		systemctl --quiet disable redis-server.service >/dev/null 2>&1 || true
	fi
}

install_missing() {
	local -a wanted

	mapfile -t wanted < <(missing "$@")
	[ "${#wanted[@]}" -gt 0 ] || return 0
	echo "packages.sh: installing ${wanted[*]}"
	if [ "$(id -u)" -eq 0 ]; then
		install_as_root "${wanted[@]}"
	elif command -v sudo >/dev/null; then
		sudo "$0" --as-root "${wanted[@]}" </dev/null ||
			die "sudo failed; as root: apt-get install --no-install-recommends ${wanted[*]}"
	else
		die "neither root nor sudo; as root: apt-get install --no-install-recommends ${wanted[*]}"
	fi
}

purpose=
action=--install
while [ $# -gt 0 ]; do
	case $1 in
	run | build | guest | test | bench | deploy) purpose=$1 ;;
	--install | --list | --missing) action=$1 ;;
	--as-root)
		shift
		install_as_root "$@"
		exit
		;;
	-h | --help)
		usage
		exit
		;;
	*)
		usage >&2
		echo "packages.sh: unknown argument: $1" >&2
		exit 2
		;;
	esac
	shift
done
if [ -z "$purpose" ]; then
	usage >&2
	exit 2
fi

mapfile -t packages < <("packages_$purpose" | sort -u)
[ "$action" = --list ] || command -v dpkg-query >/dev/null ||
	die "not a Debian system: packages.sh $purpose --list names what is needed"
case $action in
--list) printf '%s\n' "${packages[@]}" ;;
--missing) missing "${packages[@]}" ;;
--install) install_missing "${packages[@]}" ;;
esac
