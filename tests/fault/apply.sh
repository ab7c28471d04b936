#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Applying, pruning and deleting are all or nothing: nanoctrl and Redis are killed meanwhile, and two operators apply at once.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

ctl() {
	"$bin/nanoctrl" "$@" --address "$url"
}

# write_files VERSION [MORE]: two topologies of a scope, in a directory of their own, whose links all have this version as profile.
write_files() {
	local name

	mkdir -p "$work/$1$2"
	for name in a b; do
		{
			printf 'version: 1\nname: %s\nscope: test\nlinks:\n' "$name"
			printf '  - { pairs: [[%s-x, %s-y%d]], profile: %s }\n' "$name" "$name" 0 "$1"
			[ -z "$2" ] || printf '  - { mesh: "role=%s", profile: %s }\n' "$name" "$1"
		} >"$work/$1$2/$name.yaml"
	done
}

# What is stored: "NAME=PROFILE,..." for each topology, in order; nothing where nanoctrl does not answer.
stored() {
	curl -sf "$url/v1/topologies?scope=test" | python3 -c '
import json, sys
print(*sorted("%s=%s" % (t["name"], ",".join(sorted(l["profile"] for l in t["topology"]["links"]))) for t in json.load(sys.stdin)["topologies"]))'
}

is_answering() {
	curl -sf "$url/readyz" >/dev/null
}

restart() {
	end "$1" KILL
	if [ "$1" = redis ]; then
		start_redis
	else
		start_nanoctrl
	fi
	wait_for 20 is_answering || fail "nanoctrl does not answer again"
}

# run NAME COMMAND...: the command, undisturbed; how long it takes is in took[NAME], in milliseconds.
declare -A took=()
run() {
	local begin

	begin=$(date +%s%3N)
	"${@:2}" >"$work/told" 2>&1 || fail "$1: $(cat "$work/told")"
	took[$1]=$(($(date +%s%3N) - begin))
}

# killed WHAT PERCENT NAME COMMAND...: the command, of whose time so much is over when WHAT is killed, and started again.
# Its status is in $told.
killed() {
	local pid ms=$((took[$3] * $2 / 100))

	"${@:4}" >"$work/told" 2>&1 &
	pid=$!
	# The place where it is killed is what differs.
	spend "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
	restart "$1"
	told=0
	wait "$pid" || told=$?
}

# one_of WHAT STATE...: what is stored is one of these, and the last one if the command said that it worked.
one_of() {
	local now state

	now=$(stored)
	if [ "$told" -eq 0 ]; then
		[ "$now" = "${!#}" ] || fail "$1 said that it worked, and there is: $now"
		return
	fi
	for state in "${@:2}"; do
		[ "$now" != "$state" ] || return 0
	done
	fail "$1 was done in part: $now"
}

write_files v1 ""
write_files v2 ""
write_files v1 -more
start_control
told=0

run apply ctl apply -f "$work/v1-more"
run prune ctl apply -f "$work/v2" --prune
run delete ctl delete topology a --scope test

for what in nanoctrl redis; do
	for percent in 40 70 95; do
		say "$what is killed after $percent % of apply (${took[apply]} ms), prune (${took[prune]} ms) and delete (${took[delete]} ms)"
		ctl apply -f "$work/v1" --prune >/dev/null || fail "apply: $?"
		killed "$what" "$percent" apply ctl apply -f "$work/v1-more"
		one_of "apply" "a=v1 b=v1" "a=v1,v1 b=v1,v1"
		run apply ctl apply -f "$work/v1-more"
		killed "$what" "$percent" prune ctl apply -f "$work/v2" --prune
		one_of "apply --prune" "a=v1,v1 b=v1,v1" "a=v2 b=v2"
		ctl apply -f "$work/v1-more" --prune >/dev/null || fail "apply: $?"
		run prune ctl apply -f "$work/v2" --prune
		killed "$what" "$percent" delete ctl delete topology a --scope test
		one_of "delete" "a=v2 b=v2" "b=v2"
	done
done

say "of two operators who apply at once one is told of the other, and what is stored is of one of them"
n_told=0
for _ in 1 2 3 4 5 6 7 8; do
	ctl apply -f "$work/v1" --prune >"$work/one" 2>&1 &
	one=$!
	ctl apply -f "$work/v2" --prune >"$work/two" 2>&1 &
	two=$!
	status_one=0
	status_two=0
	wait "$one" || status_one=$?
	wait "$two" || status_two=$?
	[ "$status_one" -eq 0 ] || [ "$status_two" -eq 0 ] || fail "both were refused"
	for who in one two; do
		status=status_$who
		[ "${!status}" -eq 0 ] && continue
		grep -q 'another client changed topologies of the scope meanwhile: nothing was changed' "$work/$who" || fail "$(cat "$work/$who")"
		n_told=$((n_told + 1))
	done
	now=$(stored)
	[ "$now" = "a=v1 b=v1" ] || [ "$now" = "a=v2 b=v2" ] || fail "both are there in part: $now"
done
say "$n_told of 8 times"

say "a file of too many links, and one with a key that says nothing, change nothing"
before=$(stored)
{
	printf 'version: 1\nname: a\nscope: test\nlinks:\n  - pairs:\n'
	printf '      - [a, b%d]\n' {1..100001}
} >"$work/many.yaml"
! ctl apply -f "$work/many.yaml" --prune 2>"$work/many.err" || fail "it was applied"
grep -qx "$work/many.yaml:5:5: links\[0\].pairs are more than 100000 links" "$work/many.err" || fail "$(cat "$work/many.err")"
printf 'version: 1\nname: a\nscope: test\nlinks:\n  - { mesh: "role=x", profile: }\n' >"$work/v1/a.yaml"
! ctl apply -f "$work/v1" --prune 2>"$work/none.err" || fail "it was applied"
grep -qx "$work/v1/a.yaml:5:23: profile says nothing" "$work/none.err" || fail "$(cat "$work/none.err")"
printf 'version: 1\nname: a\nscope: test\nagents:\n  - { select: "role=x", count: -1 }\n' >"$work/v1/a.yaml"
! ctl apply -f "$work/v1" --prune 2>"$work/none.err" || fail "it was applied"
grep -q "^$work/v1/a.yaml:5:25: agents\[0\].count " "$work/none.err" || fail "$(cat "$work/none.err")"
printf 'version: 1\nname: a\nscope: test\nlinks:\n  - { tree: "role=x" }\n' >"$work/v1/a.yaml"
! ctl apply -f "$work/v1" --prune 2>"$work/none.err" || fail "it was applied"
grep -q "^$work/v1/a.yaml:5:5: links\[0\] has not exactly one of mesh" "$work/none.err" || fail "$(cat "$work/none.err")"
[ "$(stored)" = "$before" ] || fail "something was changed: $(stored)"
