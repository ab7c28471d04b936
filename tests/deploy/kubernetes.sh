#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manifests of deploy/kubernetes: each overlay by the strict schemas of Kubernetes, and its pods run as they are
# written (pods.py). $1 is schemas or pods.
set -euo pipefail

source=${SLIME_SOURCE:?}
here=$source/tests/deploy

skip() {
	echo "skipped: $*"
	exit 77
}

fail() {
	echo "FAILED: $*"
	exit 1
}

command -v kubectl >/dev/null || skip "kubectl is not installed; Debian has no package of it"
. "$here/venv.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

schemas() {
	local overlay version

	for overlay in host-network device-plugin; do
		kubectl kustomize "$source/deploy/kubernetes/overlays/$overlay" >"$work/$overlay.yaml"
		for version in 1.27.0 1.30.0 1.33.0; do
			"$venv/bin/kubernetes-validate" --strict --quiet -k $version "$work/$overlay.yaml" || fail "$overlay in $version"
		done
	done
	# The component of the Prometheus operator: it builds with an overlay; its kinds have no schema here.
	mkdir "$work/monitored"
	printf '%s\n' 'apiVersion: kustomize.config.k8s.io/v1beta1' 'kind: Kustomization' \
		"resources: [$(realpath --relative-to="$work/monitored" "$source/deploy/kubernetes/overlays/host-network")]" \
		"components: [$(realpath --relative-to="$work/monitored" "$source/deploy/kubernetes/components/monitoring")]" \
		>"$work/monitored/kustomization.yaml"
	[ "$(kubectl kustomize --load-restrictor LoadRestrictionsNone "$work/monitored" | grep -cE '^kind: (Service|Pod)Monitor$')" -eq 2 ] ||
		fail "the component monitoring"
	sed 's/livenessProbe:/livenesProbe:/' "$work/host-network.yaml" >"$work/wrong.yaml"
	if "$venv/bin/kubernetes-validate" --strict --quiet "$work/wrong.yaml" >"$work/out" 2>&1; then
		fail "a field that does not exist is accepted"
	fi
	grep -q livenesProbe "$work/out" || fail "the unknown field is not named"
	while read -r file; do
		head -n 1 "$file" | grep -q '^# Trusted network' || fail "$file does not begin with \"Trusted network\""
	done < <(find "$source/deploy/kubernetes" "$source/deploy/compose.yaml" -name '*.yaml')
}

pods() {
	local overlay

	[ "$(id -u)" -eq 0 ] || skip "only root makes namespaces of networks"
	for overlay in host-network device-plugin; do
		kubectl kustomize "$source/deploy/kubernetes/overlays/$overlay" >"$work/$overlay.yaml"
		mkdir "$work/$overlay"
		unshare --mount --net --pid --fork --kill-child --mount-proc "$venv/bin/python" "$here/pods.py" \
			"$work/$overlay.yaml" "$work/$overlay" || fail "$overlay"
	done
}

"$1"
