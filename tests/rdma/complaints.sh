# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by who reads a guest's kernel log.

# complaints: of the log on standard input, what a kernel without faults does not say, with the lines behind it; it says
# more than this at the end of a bug. One warning is soft-RoCE's own: of an answer that does not fit its request, which a
# wire that comes and goes may bring, rxe's check_ack() makes an error and sets no status, at which rxe_completer() warns.
complaints() {
	sed '/WARNING: .* rxe_completer+/d' |
		grep -E -A 12 'BUG:|WARNING:|Oops|general protection|blocked for more than|refcount_t:' | head -n 60
}
