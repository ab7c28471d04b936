#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the image "slime" of the tree as it is, without a daemon and without a network, as an OCI archive.
# deploy/packages.sh deploy brings what is needed. FILE.spdx.json beside it says what is in the image.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 = -* ]]; then
	echo "usage: deploy/image/build.sh FILE.tar" >&2
	exit 2
fi
mkdir -p "$(dirname "$1")"
file=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^project(slime VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
programs=(nanoctrl peeragent slime-bench slime-cache slime)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# Its own build: with the prefix that the programs have in the image.
tree=build/image
cmake -S . -B $tree/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DSLIME_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr
cmake --build $tree/build
rm -rf $tree/install $tree/context
DESTDIR=$PWD/$tree/install cmake --install $tree/build --strip >/dev/null
root=$PWD/$tree/context/rootfs
mkdir -p "$root"/{etc,usr/bin,usr/lib,usr/lib64,usr/share/doc,usr/share/sbom}
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ln -s usr/bin "$root/bin"
install -d -m 1777 "$root/tmp" "$root/run"

: >$tree/packages
# take FILE: a file of a Debian package, its package's licence, and the libraries that it loads.
take() {
	local owned package library target

	target=${1/#\/lib/\/usr\/lib}
	[ ! -e "$root$target" ] || return 0
	install -D "$(realpath "$1")" "$root$target"
	owned=$(dpkg -S "$target" "${target#/usr}" 2>/dev/null | head -n 1 || true)
	package=${owned%%:*}
	[ -n "$package" ] || { echo "build.sh: $1 is of no package" >&2 && exit 1; }
	echo "$package" >>$tree/packages
	install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
	while read -r library; do
		take "$library"
	done < <(libraries "$1")
}

# Of a text there are none.
libraries() {
	ldd "$1" 2>/dev/null | sed -nE 's/^[[:space:]]*(.* => )?(\/[^ ]+) \(0x.*/\2/p'
}

for program in "${programs[@]}"; do
	cp "$tree/install/usr/bin/$program" "$root/usr/bin/"
done
(cd "$tree/install" && cp --parents usr/lib/*/slime/*.so "$root")
for program in "$root"/usr/bin/* "$root"/usr/lib/*/slime/*.so; do
	while read -r library; do
		take "$library"
	done < <(libraries "$program")
done
take "$(command -v redis-server | sed 's,^/bin,/usr/bin,')"
# Each adapter's half of libibverbs, which it opens by name.
for driver in /etc/libibverbs.d/*.driver; do
	take "$driver"
done
for driver in /usr/lib/*/libibverbs/*.so; do
	take "$driver"
done
echo 'root:x:0:0:root:/:/sbin/nologin
slime:x:65532:65532:slime:/:/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:
slime:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
install -m 644 LICENSE "$root/usr/share/doc/LICENSE.slime"

deploy/image/sbom.py "$version" "$(git rev-parse HEAD)" "$SOURCE_DATE_EPOCH" <$tree/packages >"$file.spdx.json"
cp "$file.spdx.json" "$root/usr/share/sbom/slime.spdx.json"

# No process runs while it is made, and chroot is all the isolation that copying needs.
cp deploy/image/Containerfile $tree/context/
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
buildah=(buildah --root "$storage/root" --runroot "$storage/run")
"${buildah[@]}" bud --quiet --network none --timestamp "$SOURCE_DATE_EPOCH" -t "slime:$version" $tree/context
rm -f "$file"
"${buildah[@]}" push --quiet "slime:$version" "oci-archive:$file:slime:$version"
echo "$file: slime:$version, $(($(stat -c %s "$file") / 1000000)) MB"
