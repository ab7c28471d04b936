#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DLSlime's unmodified agents with their own control plane, with ours, and with both side by side on one Redis: what they see
# is right, and the same but for what results.py names.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original
for name in theirs ours both; do
	start_redis_at "redis-$name"
	take_port "$name-1"
	take_port "$name-2"
done

# watch NAME SERVER...: the scenario, with these servers over the Redis of this name.
watch() {
	local name=$1 n=0 whose
	local -a words=()
	shift

	for whose in "$@"; do
		n=$((n + 1))
		"${whose}_at" "redis-$name"
		[ $n = 1 ] || words+=(--)
		words+=("$whose" "${port_of[$name-$n]}" "${command[@]}" --port "${port_of[$name-$n]}")
	done
	spawn "watch-$name" "$venv/bin/python" "$here/agents.py" "$venv/bin/python" "${port_of[redis-$name]}" "$work/$name.seen" "${words[@]}"
}

watch theirs theirs
watch ours ours
watch both theirs ours
for name in theirs ours both; do
	reap "watch-$name"
	[ "$status" = 0 ] || fail "the scenario with $name ended with $status: $(tail -n 3 "$work/watch-$name.out")"
done
python3 "$here/results.py" "$work/theirs.seen" "$work/ours.seen" "$work/both.seen" || fail "agents see something else with us"
