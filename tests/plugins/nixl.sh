#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The published wheel of NIXL loads the back end from the build, and its agents do what a program here says: nixl.sh [--ctrl]
# PROGRAM [ARGUMENT...]; --ctrl: that with nanoctrl. NIXL_VERSION selects the wheel's version.
set -euo pipefail

plugins=${SLIME_BUILD:?the build tree}/nixl
if [ "$1" = --ctrl ]; then
	plugins=$SLIME_BUILD/nixl-ctrl
	shift
fi
program=$(dirname "${BASH_SOURCE[0]}")/$1
shift
version=${NIXL_VERSION:-1.5.1}
venv=$SLIME_BUILD/nixl-$version

skip() {
	echo "skipped: $*"
	exit 77
}

# An empty torch will do for versions that import it.
install_wheel() {
	rm -rf "$venv"
	python3 -m venv "$venv" &&
		timeout 200 "$venv/bin/pip" install -q --disable-pip-version-check --no-deps "nixl-cu12==$version" numpy &&
		mkdir "$venv/stubs" && echo 'class Tensor: pass' >"$venv/stubs/torch.py" &&
		touch "$venv/complete"
}

command -v python3 >/dev/null || skip "python3 is not installed"
[ -f "$plugins/libplugin_SLIME.so" ] || skip "the plug-in is not built"
exec 9>"$venv.lock"
flock 9
[ -f "$venv/complete" ] || install_wheel || skip "nixl-cu12 $version cannot be had from the package index"
flock -u 9

# The program is not sanitized: what the plug-in needs has to be there before it.
libraries=()
while read -r library; do
	libraries+=("$library")
done < <(ldd "$plugins/libplugin_SLIME.so" | awk '/lib(asan|tsan|ubsan)\.so/ { print $3 }')
if [ ${#libraries[@]} -gt 0 ]; then
	libraries+=("$(ldd "$plugins/libplugin_SLIME.so" | awk '/libstdc\+\+/ { print $3 }')")
	# Python and the wheel do not free what they have at their end.
	export ASAN_OPTIONS=detect_leaks=0
fi
export NIXL_PLUGIN_DIR=$plugins PYTHONPATH=$venv/stubs PYTHONDONTWRITEBYTECODE=1
LD_PRELOAD=${libraries[*]} exec "$venv/bin/python" "$program" "$@"
