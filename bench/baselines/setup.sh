#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The peers that come from PyPI, into a virtual environment under the build tree: bench/baselines/setup.sh [NAME...]
set -euo pipefail

usage() {
	cat <<'END_OF_USAGE'
usage: bench/baselines/setup.sh [NAME...]

  ray  pulsing  mooncake  nixl  nanoctrl  slimerpc  peercache  python  install these; all of them when none is named

They go to build/baselines; SLIME_BASELINES names another place. What Debian has (UCX, ZeroMQ, gRPC) comes by
deploy/packages.sh bench.
END_OF_USAGE
}

# The versions whose figures docs/performance.md has. --no-deps: NIXL names torch, which is gigabytes, and does without.
packages_of() {
	case $1 in
	ray) echo 'ray==2.60.0 numpy' ;;
	pulsing) echo 'pulsing==0.1.2' ;;
	mooncake) echo 'mooncake-transfer-engine-non-cuda==0.3.13.post1 numpy' ;;
	nanoctrl) echo 'nanoctrl==0.1.0.post1' ;; # with the original server as an executable
	peercache) echo 'peercache==0.8.4' ;;
	slimerpc) echo 'nanoctrl==0.1.0.post1 dlslime==0.1.0.post1 httpx==0.28.1 redis==8.1.0' ;; # does not name the first
	python) echo "numpy pyzmq==27.3.0 $source/python" ;; # our package, and what its calls are compared with
	nixl) echo 'numpy --no-deps nixl-cu12==1.5.1' ;;
	*)
		usage >&2
		echo "setup.sh: unknown peer: $1" >&2
		exit 2
		;;
	esac
}

case ${1:-} in
-h | --help)
	usage
	exit
	;;
esac

source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
names=("$@")
[ $# -gt 0 ] || names=(ray pulsing mooncake nixl nanoctrl slimerpc peercache python)
place=${SLIME_BASELINES:-$(dirname "${BASH_SOURCE[0]}")/../../build/baselines}

[ -x "$place/bin/python" ] || python3 -m venv "$place"
# A peer that this machine cannot have is said and left out: its rows are "not installed".
failed=0
for name in "${names[@]}"; do
	read -ra packages <<<"$(packages_of "$name")"
	[ "${#packages[@]}" -gt 0 ] || exit 2
	"$place/bin/pip" install --quiet "${packages[@]}" || {
		echo "setup.sh: $name could not be installed" >&2
		failed=1
	}
done
exit $failed
