#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The image: made twice with the same bytes, small, listed in its SBOM, and run by podman as any user, read-only and
# without capabilities: a control plane, and two agents in its network and process namespaces, which are linked over
# shared memory and measured. Then the same by deploy/compose.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"
[ "$(id -u)" -eq 0 ] || skip "only root runs containers here"
for tool in buildah podman runc skopeo umoci; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done
. "$SLIME_SOURCE/tests/deploy/venv.sh"
if [ -z "${IMAGE_ALONE:-}" ]; then
	# Containers that use the host's network see this one.
	rm -rf "$work"
	IMAGE_ALONE=1 exec unshare --net bash "$0" "$@"
fi

# A host that cannot raise limits and has control groups of both versions needs this of podman; the image does not.
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
printf '%s\n' '[engine]' 'runtime = "runc"' 'cgroup_manager = "cgroupfs"' 'events_logger = "file"' "tmp_dir = \"$work/tmp\"" \
	'[containers]' 'default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]' >"$CONTAINERS_CONF"
printf '%s\n' '[storage]' 'driver = "vfs"' "graphroot = \"$work/storage\"" "runroot = \"$work/run\"" >"$CONTAINERS_STORAGE_CONF"

trap 'podman rm --all --force --time 2 >/dev/null 2>&1 || true; cleanup' EXIT
# Of containers that were started.
logs() {
	local name

	for name in $(podman ps --all --format '{{.Names}}'); do
		echo "== $name"
		podman logs --tail 20 "$name" 2>&1
	done
}

cd "$SLIME_SOURCE"

say "made twice"
image=${SLIME_IMAGE:-$work/image.tar}
if [ -z "${SLIME_IMAGE:-}" ]; then
	for file in "$image" "$work/again.tar"; do
		nice deploy/image/build.sh "$file" >"$work/build" 2>&1 || fail "$(tail -n 20 "$work/build")"
	done
	[ "$(skopeo inspect --format '{{.Digest}}' "oci-archive:$image")" = \
		"$(skopeo inspect --format '{{.Digest}}' "oci-archive:$work/again.tar")" ] || fail "two builds differ"
fi
tag=$(tar -xOf "$image" index.json | sed -n 's/.*"org.opencontainers.image.ref.name":"\([^"]*\)".*/\1/p')
tag=${tag#localhost/}

say "its files"
skopeo copy --quiet "oci-archive:$image" "oci:$work/oci:slime"
umoci unpack --rootless --image "$work/oci:slime" "$work/bundle" >/dev/null 2>&1 || fail "umoci does not unpack it"
root=$work/bundle/rootfs
size=$(du -sb "$root" | cut -f 1)
[ "$size" -lt 60000000 ] || fail "it has $size bytes"
[ ! -e "$root/usr/bin/sh" ] || fail "it has a shell"
python3 - "$root" <<'END' || fail "the SBOM"
import json, os, sys
root = sys.argv[1]
sbom = json.load(open(f"{root}/usr/share/sbom/slime.spdx.json"))
names = {p["name"] for p in sbom["packages"]}
assert {"slime", "libc6", "redis-server"} <= names or {"slime", "libc6", "redis-tools"} <= names, names
# The licence of each package, and no licence of one that is not listed.
assert set(os.listdir(f"{root}/usr/share/doc")) == names - {"slime"} | {"LICENSE.slime"}, names
END

say "its roles"
podman load --quiet --input "$image" >/dev/null || fail "podman does not load it"
# run NAME OPTION... -- ARGUMENT...
run() {
	local name=$1 options=()

	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	podman run --detach --name "$name" --read-only --cap-drop all --security-opt no-new-privileges \
		--tmpfs /run:mode=1777 --tmpfs /tmp "${options[@]}" "$tag" "$@" \
		>/dev/null || fail "podman does not run $name"
}
within() {
	podman exec "$1" "${@:2}"
}
run ctrl --network none --
wait_for 20 within ctrl nanoctrl status --runtime-dir /run/nanoctrl || fail "nanoctrl is not ready"
for name in node-a node-b; do
	run "$name" --network container:ctrl --pid container:ctrl --volume "$SLIME_SOURCE/configs/quickstart:/etc/slime:ro" -- \
		peeragent --config "/etc/slime/$name.yaml" --set agent.state_dir=/tmp/state
done
connected() {
	within ctrl nanoctrl obs links --address http://127.0.0.1:3000 --scope quickstart --wait 1s | grep -q 'shm'
}
wait_for 30 connected || fail "no link over shared memory"
within node-a slime-bench rpc --ctrl http://127.0.0.1:3000 --scope quickstart --from node-a --peer node-b --sizes 1KiB \
	--duration 1s || fail "slime-bench"
within node-a peeragent --version
within node-a slime --version
# As an application pod beside an agent of its node: with its network, and not its process ids.
run node-c --network container:ctrl --volume "$SLIME_SOURCE/configs/quickstart:/etc/slime:ro" -- peeragent \
	--config /etc/slime/node-b.yaml --set agent.name=node-c --set 'links=[{to: node-a}]' --set agent.state_dir=/tmp/state
not_over_shm() {
	within ctrl nanoctrl obs links --address http://127.0.0.1:3000 --scope quickstart | grep -q 'node-c.* connected .*tcp'
}
wait_for 30 not_over_shm || fail "no link over tcp between containers with process ids of their own"
run other --network none -- slime-cache --version
run redis --network none --tmpfs /data:mode=1777 -- redis-server --dir /data
wait_for 10 sh -c "podman logs redis | grep -q 'Ready to accept connections'" || fail "Redis"

say "they end on SIGTERM"
for name in node-a node-b node-c ctrl; do
	podman stop --time 20 "$name" >/dev/null
	[ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" -eq 0 ] || fail "$name ended otherwise"
done

say "Compose"
mkdir "$work/deploy"
cp -r configs "$work/"
# The limit of locked memory cannot be raised here.
sed '/memlock/d' deploy/compose.yaml >"$work/deploy/compose.yaml"
podman tag "$tag" slime:0.1.0
ip link set lo up
"$venv/bin/podman-compose" -f "$work/deploy/compose.yaml" up --detach >"$work/compose" 2>&1 || fail "$(tail -n 20 "$work/compose")"
composed() {
	podman exec slime_node-a_1 nanoctrl obs links --address http://127.0.0.1:3000 --scope quickstart --wait 1s | grep -q shm
}
wait_for 30 composed || fail "no link over shared memory"
"$venv/bin/podman-compose" -f "$work/deploy/compose.yaml" down >"$work/compose" 2>&1 || fail "$(tail -n 20 "$work/compose")"
