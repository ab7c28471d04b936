#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-list.sh RESULTS LIST, in the guest: makes the devices and runs the tests of LIST, those of one pair of devices one
# after the other, and those of different pairs beside each other. Each leaves RESULTS/NAME.out, and RESULTS/NAME.status
# when it ended. A line of LIST is a name, a limit in seconds, a pair and the words of a command, with tabs between them.
set -uo pipefail

results=$1
list=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/complaints.sh"
. "$here/wire.sh"

# What the kernel said since the line MARK. Whose fault it is, it does not say: all that ran meanwhile have it.
complaints_since() {
	dmesg | sed "1,/$1\$/d" | complaints
}

# run_one NAME LIMIT COMMAND...: of $pair.
run_one() {
	local name=$1 limit=$2 mark="test $1" said status begin=$SECONDS
	shift 2

	echo "$mark" >/dev/kmsg
	timeout --kill-after=5 "$limit" "$@" >"$results/$name.out" 2>&1 </dev/null
	status=$?
	if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
		echo "run-list.sh: ended after $limit s" >>"$results/$name.out"
		[ "$pair" != 0 ] || mend_wires # it may have been killed before it did
	fi
	said=$(complaints_since "$mark")
	if [ -n "$said" ]; then
		printf 'run-list.sh: the kernel complained:\n%s\n' "$said" >>"$results/$name.out"
		[ "$status" -ne 0 ] || status=1
	fi
	echo "$status" >"$results/$name.status.new"
	mv "$results/$name.status.new" "$results/$name.status"
	echo "$name: status $status, $((SECONDS - begin)) s, until $SECONDS s"
}

run_pair() {
	local pair=$1
	local -a words

	while IFS=$'\t' read -r -a words; do
		[ "${words[2]}" != "$pair" ] || run_one "${words[@]:0:2}" "${words[@]:3}"
	done <"$list"
}

mapfile -t pairs < <(cut -f 3 "$list" | sort -u)
"$here/devices.sh" "${pairs[@]}" || exit 1
: >"$results/devices"
for pair in "${pairs[@]}"; do
	run_pair "$pair" &
done
wait
