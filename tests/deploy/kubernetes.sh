#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manifests of deploy/kubernetes: each overlay, with the component sentinel and without it, by the strict schemas of
# Kubernetes, and its pods run as they are written (pods.py). $1 is schemas or pods.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

command -v kubectl >/dev/null || skip "kubectl is not installed; Debian has no package of it"
. "$SLIME_SOURCE/tests/deploy/venv.sh"
manifests=$SLIME_SOURCE/deploy/kubernetes

# build OVERLAY [COMPONENT]: into OVERLAY.yaml or OVERLAY-COMPONENT.yaml.
build() {
	local name=$1${2:+-$2}

	mkdir -p "$work/$name"
	printf '%s\n' 'apiVersion: kustomize.config.k8s.io/v1beta1' 'kind: Kustomization' \
		"resources: [$(realpath --relative-to="$work/$name" "$manifests/overlays/$1")]" \
		"components: [${2:+$(realpath --relative-to="$work/$name" "$manifests/components/$2")}]" >"$work/$name/kustomization.yaml"
	kubectl kustomize "$work/$name" >"$work/$name.yaml" || fail "$name"
}

build host-network
build device-plugin
build host-network sentinel
build host-network monitoring

schemas() {
	local name version

	for name in host-network device-plugin host-network-sentinel; do
		for version in 1.27.0 1.30.0 1.33.0; do
			"$venv/bin/kubernetes-validate" --strict --quiet -k $version "$work/$name.yaml" || fail "$name in $version"
		done
	done
	# The kinds of the Prometheus operator have no schema here.
	[ "$(grep -cE '^kind: (Service|Pod)Monitor$' "$work/host-network-monitoring.yaml")" -eq 2 ] || fail "the component monitoring"
	sed 's/livenessProbe:/livenesProbe:/' "$work/host-network.yaml" >"$work/wrong.yaml"
	if "$venv/bin/kubernetes-validate" --strict --quiet "$work/wrong.yaml" >"$work/out" 2>&1; then
		fail "a field that does not exist is accepted"
	fi
	grep -q livenesProbe "$work/out" || fail "the unknown field is not named"
	while read -r file; do
		head -n 1 "$file" | grep -q '^# Trusted network' || fail "$file does not begin with \"Trusted network\""
	done < <(find "$manifests" "$SLIME_SOURCE/deploy/compose.yaml" -name '*.yaml')
}

pods() {
	local name

	[ "$(id -u)" -eq 0 ] || skip "only root makes namespaces of networks"
	for name in host-network device-plugin host-network-sentinel; do
		say "$name"
		mkdir "$work/pods-$name"
		setpriv --pdeathsig KILL -- unshare --mount --net --pid --fork --kill-child --mount-proc \
			"$venv/bin/python" "$SLIME_SOURCE/tests/deploy/pods.py" "$work/$name.yaml" "$work/pods-$name" || fail "$name"
	done
}

"$1"
