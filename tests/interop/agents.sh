#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DLSlime's unmodified agents with their own control plane, with ours, and with both side by side on one Redis: what they see
# is right, and the same but for what results.py names. Ours has its private Redis there, whose rights have to suffice for them.
. "$(dirname "${BASH_SOURCE[0]}")/original.sh"

get_original
for name in theirs ours both; do
	take_port "$name-1"
	take_port "$name-2"
done
start_redis_at redis-theirs
start_redis_at redis-both
take_port redis-ours

# The private Redis outlives the server, which the scenario kills.
end_private() {
	"$bin/nanoctrl" stop --force --runtime-dir "$work/ours-redis-ours" --data-dir "$work/data" >/dev/null 2>&1 || true
	cleanup
}
trap end_private EXIT

# watch NAME SERVER...: the scenario, with these servers over the Redis of this name.
watch() {
	local name=$1 n=0 whose key=
	local -a words=()
	shift

	for whose in "$@"; do
		n=$((n + 1))
		"${whose}_at" "redis-$name"
		if [ "$name" = ours ]; then
			command=("$bin/nanoctrl" server --runtime-dir "$work/ours-redis-ours" --data-dir "$work/data"
				--set redis.compat_port="${port_of[redis-ours]}" --set log.level=warn --set server.drain_accept=0)
			key=:$work/data/redis.key
		fi
		[ $n = 1 ] || words+=(--)
		words+=("$whose" "${port_of[$name-$n]}" "${command[@]}" --port "${port_of[$name-$n]}")
	done
	spawn "watch-$name" "$venv/bin/python" "$here/agents.py" "$venv/bin/python" "${port_of[redis-$name]}$key" "$work/$name.seen" "${words[@]}"
}

watch theirs theirs
watch ours ours
watch both theirs ours
for name in theirs ours both; do
	reap "watch-$name"
	[ "$status" = 0 ] || fail "the scenario with $name ended with $status: $(tail -n 3 "$work/watch-$name.out")"
done
redis-cli -s "$work/data/redis.sock" --user nanoctrl --pass "$(cat "$work/data/redis.key")" --no-auth-warning acl log >"$work/denied"
# It may ask who a client is, which a refusal does not keep from going on.
! grep -x -A 1 object "$work/denied" | grep -vE '^(object|--|client.*)$' || fail "agents may not do what they need: $(cat "$work/denied")"
python3 "$here/results.py" "$work/theirs.seen" "$work/ours.seen" "$work/both.seen" || fail "agents see something else with us"
