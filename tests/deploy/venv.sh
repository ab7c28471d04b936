# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tests of manifests: what they need from PyPI, in $venv of the build tree, made once.
venv=$SLIME_BUILD/deploy/venv
if [ ! -e "$venv/made" ]; then
	mkdir -p "$SLIME_BUILD/deploy"
	exec 8>"$SLIME_BUILD/deploy/lock"
	flock 8
	if [ ! -e "$venv/made" ]; then
		if ! python3 -m venv "$venv" || ! "$venv/bin/pip" -q install kubernetes-validate==1.37.0 podman-compose==1.6.0 PyYAML==6.0.4; then
			skip "the package index is out of reach"
		fi
		touch "$venv/made"
	fi
	exec 8>&-
fi
