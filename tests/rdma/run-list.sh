#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-list.sh RESULTS LIST, in the guest: makes the devices and runs the tests of LIST, one after the other. Each leaves
# RESULTS/NAME.out, and RESULTS/NAME.status when it ended. A line of LIST is a name, a limit in seconds and the words of
# a command, with tabs between them.
set -uo pipefail

results=$1
list=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/complaints.sh"

# What the kernel said since the line MARK.
complaints_since() {
	dmesg | sed "1,/$1\$/d" | complaints
}

# run_one NAME LIMIT COMMAND...
run_one() {
	local name=$1 limit=$2 mark="test $1" said status
	shift 2

	echo "$mark" >/dev/kmsg
	timeout --kill-after=5 "$limit" "$@" >"$results/$name.out" 2>&1 </dev/null
	status=$?
	[ "$status" -ne 124 ] || echo "run-list.sh: ended after $limit s" >>"$results/$name.out"
	said=$(complaints_since "$mark")
	if [ -n "$said" ]; then
		printf 'run-list.sh: the kernel complained:\n%s\n' "$said" >>"$results/$name.out"
		[ "$status" -ne 0 ] || status=1
	fi
	echo "$status" >"$results/$name.status.new"
	mv "$results/$name.status.new" "$results/$name.status"
	echo "$name: status $status after $SECONDS s"
}

"$here/devices.sh" || exit 1
: >"$results/devices"
while IFS=$'\t' read -r -a words; do
	run_one "${words[@]}"
done <"$list"
