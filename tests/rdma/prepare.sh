#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what guest.sh boots: Debian's stock kernel, and an initrd with the modules of the laboratory. Nothing is
# installed: the package is only downloaded and unpacked, into build/rdma-lab, and that once.
set -euo pipefail

usage() {
	cat <<'END'
usage: tests/rdma/prepare.sh

Prints the directory that holds "kernel", "initrd" and "version". Exits with 77, and one line that says what is missing,
where the laboratory cannot be had. Several may run at once.

  RDMA_LAB_DIR     where it is kept, instead of build/rdma-lab
  RDMA_LAB_KERNEL  a kernel package that is here already (linux-image-*.deb), instead of the one apt knows
END
}

skip() {
	echo "prepare.sh: skipped: $*" >&2
	exit 77
}

[ $# -eq 0 ] || {
	usage >&2
	exit 2
}

here=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

# What has to be loaded to reach the host's files, in the initrd, before anything else can be.
root_modules=(virtio_pci 9pnet_virtio 9p overlay virtio_console)
# Soft-RoCE, the wire it runs over, and what disturbs that wire. rxe asks for a checksum by its name.
lab_modules=(crc32_generic rdma_rxe rdma_ucm ib_uverbs veth sch_netem)

lab=${RDMA_LAB_DIR:-$here/../../build/rdma-lab}
mkdir -p "$lab"
lab=$(realpath "$lab")
# Other scripts, or another kernel given, make another laboratory: one that is in use stays as it is.
key=$({ cat "$here/prepare.sh" "$here/initrd.sh"; echo "${RDMA_LAB_KERNEL:-}"; } | sha256sum | head -c 16)
ready=$lab/$key

finish_if_ready() {
	[ ! -d "$ready" ] || {
		echo "$ready"
		exit 0
	}
}
finish_if_ready

[ "$(uname -m)" = x86_64 ] || skip "the laboratory is for x86-64, and this is $(uname -m)"
for tool in apt-get busybox cpio depmod dpkg-deb flock modprobe qemu-system-x86_64 xz; do
	command -v "$tool" >/dev/null || skip "$tool is not installed (deploy/packages.sh test)"
done
if ldd "$(command -v busybox)" >/dev/null 2>&1; then
	skip "busybox needs libraries: busybox-static is wanted"
fi

exec 9>"$lab/lock"
flock 9
finish_if_ready
work=$(mktemp -d "$lab/new.XXXXXXXX")
trap 'rm -rf "$work"' EXIT

# ---- the package ----

# fetch APT-OPTION...: the package of the current kernel, into the laboratory. One that an interrupted download left is
# not there yet under its own name.
fetch() {
	local package

	package=$(apt-cache "$@" depends linux-image-amd64 2>/dev/null |
		awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
	[ -n "$package" ] || return 1
	mkdir -p "$work/download"
	(cd "$work/download" && timeout 600 apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User= "$@" \
		download "$package") >"$work/apt" 2>&1 </dev/null || return 1
	mv "$work/download/$package"_*.deb "$lab/"
}

# The machine's package lists may be absent, or name a kernel that the mirror has replaced. Fresh ones of our own need
# no root.
fetch_with_own_lists() {
	local -a apt=(-o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")

	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	timeout 600 apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User= "${apt[@]}" update >"$work/apt" 2>&1 </dev/null ||
		return 1
	fetch "${apt[@]}"
}

package=${RDMA_LAB_KERNEL:-$(find "$lab" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)}
if [ -z "$package" ]; then
	fetch || fetch_with_own_lists ||
		skip "no package linux-image-amd64 can be downloaded: $(tail -n 1 "$work/apt" 2>/dev/null)"
	package=$(find "$lab" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
fi
dpkg-deb -x "$package" "$work/package" || {
	[ -n "${RDMA_LAB_KERNEL:-}" ] || rm -f "$package" # the next run downloads again
	skip "$package cannot be unpacked"
}
tree=$work/package
[ -d "$tree/lib/modules" ] || tree=$tree/usr
version=$(find "$tree/lib/modules" -mindepth 1 -maxdepth 1 -printf '%f\n' | head -n 1)
image=$work/package/boot/vmlinuz-$version

# ---- the kernel ----

# number OFFSET BYTES: a little-endian number in the head of the image.
number() {
	od -An -v -t "u$2" -j "$1" -N "$2" "$image" | tr -d ' '
}

# An emulated processor is slow at unpacking a kernel. The boot header says where the packed one lies; QEMU takes the
# unpacked ELF file as well. One that is not packed by xz is left as it is.
unpack_kernel() {
	local sectors from len

	sectors=$(number $((0x1f1)) 1)
	from=$((512 * (sectors + 1) + $(number $((0x248)) 4)))
	len=$(number $((0x24c)) 4)
	tail -c "+$((from + 1))" "$image" 2>/dev/null | head -c "$len" | xz -dc --single-stream >"$1" 2>/dev/null || true
	[ "$(head -c 4 "$1" | tail -c 3)" = ELF ] || cp "$image" "$1"
}

# ---- the initrd ----

# Files, in the order in which they are loaded. What this machine configures for its own modules is not for the guest.
modules_of() {
	modprobe -C /dev/null -d "$tree" -S "$version" --show-depends "$1" 2>/dev/null | sed -n 's/^insmod \(.*[^ ]\) *$/\1/p'
}

# put_modules FOLDER MODULE...: with all they need, and a file "order" that says how to load them.
put_modules() {
	local folder=$1 module file name
	shift

	mkdir -p "$folder"
	for module in "$@"; do
		modules_of "$module" | while IFS= read -r file; do
			name=${file##*/}
			name=${name%%.ko*}.ko
			[ ! -e "$folder/$name" ] || continue
			case $file in
			*.xz) xz -dc "$file" >"$folder/$name" ;;
			*) cp "$file" "$folder/$name" ;;
			esac
			echo "$name" >>"$folder/order"
		done
	done
}

make_initrd() {
	local root=$work/root

	mkdir -p "$root"/{bin,dev,proc,host,layers,merged}
	cp "$(command -v busybox)" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	cp "$here/initrd.sh" "$root/init"
	chmod 755 "$root/init"
	put_modules "$root/modules" "${root_modules[@]}" "${lab_modules[@]}"
	[ -e "$root/modules/rdma_rxe.ko" ] || skip "kernel $version has no rdma_rxe"
	(cd "$root" && find . | sort | cpio -o -H newc --quiet -R 0:0) >"$1"
}

depmod -b "$tree" "$version"
mkdir "$work/ready"
unpack_kernel "$work/ready/kernel"
make_initrd "$work/ready/initrd"
echo "$version" >"$work/ready/version"
mv "$work/ready" "$ready"
echo "$ready"
