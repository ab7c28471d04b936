# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tests that disturb the wire between rxe0 and rxe1. mend_wires makes it as devices.sh left it: the next test
# finds it so, also after one that failed.

# Of the processors that are emulated a look takes as much as it waits for: wait_for looks less often.
# shellcheck disable=SC2034 # it is cluster.sh's
pause=0.3

address_of() {
	case $1 in
	wire0) echo 10.77.0.1/24 ;;
	wire1) echo 10.77.0.2/24 ;;
	esac
}

mend_wires() {
	local wire

	for wire in wire0 wire1; do
		tc qdisc del dev "$wire" root 2>/dev/null || true
		ip link set "$wire" up
		ip address replace "$(address_of "$wire")" dev "$wire"
	done
}

port_is_active() {
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"
}
