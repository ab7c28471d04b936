#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A whole cluster on this machine, in network namespaces: three hosts with a replica of nanoctrl, of Redis and a sentinel
# each, and seven nodes with eight agents. It applies configs/cluster-prefill-decode.yaml, measures between agents, and
# takes away a node, a replica and the primary of Redis, each as a loss of power. Everything comes back, and is measured
# again. Nothing is left behind.
set -euo pipefail

usage() {
	cat <<'END'
usage: deploy/trial.sh [--no-build]

  --no-build   use the programs that build/release holds, or those in $SLIME_BIN

As root, or where users may make namespaces. About two minutes after the build.
END
}

build=1
case ${1:-} in
'') ;;
--no-build) build=0 ;;
-h | --help)
	usage
	exit
	;;
*)
	usage >&2
	echo "trial.sh: unknown argument: $1" >&2
	exit 2
	;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${SLIME_BIN:-$PWD/build/release/bin}
programs=(nanoctrl peeragent slime-bench bench_service)
if [ "$build" -eq 1 ]; then
	bin=$PWD/build/release/bin
	deploy/packages.sh test # redis-cli, curl, ip and nsenter are among them
	echo "trial: building the release preset, in build/release"
	log=$(mktemp)
	if ! { cmake --preset release -DSLIME_BUILD_TESTS=OFF && cmake --build --preset release --target "${programs[@]}"; } >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		exit 1
	fi
	rm "$log"
fi

# The same script, as process 1 of its namespaces: when it ends, all that it started ends, and the networks with it.
if [ -z "${SLIME_TRIAL:-}" ]; then
	alone=(unshare --net --pid --mount-proc --fork --kill-child)
	"${alone[@]}" true 2>/dev/null || alone=(unshare --user --map-root-user --net --pid --mount-proc --fork --kill-child)
	"${alone[@]}" ip link add test type veth || {
		echo "trial: cannot make network namespaces: run it as root, with ip(8) of iproute2" >&2
		exit 1
	}
	dir=$(mktemp -d -t slime-trial.XXXXXXXX)
	status=0
	SLIME_TRIAL=$dir SLIME_BIN=$bin "${alone[@]}" bash "$0" --no-build || status=$?
	if [ "$status" -eq 0 ]; then
		rm -rf "$dir"
	else
		echo "trial: the logs are in $dir" >&2
	fi
	exit "$status"
fi

dir=$SLIME_TRIAL
scope=serving
controls=(ctl-1 ctl-2 ctl-3)
# The agents of each node; node-1 has two, which so are linked over shared memory.
declare -A agents_of=([node-1]="prefill-0 decode-0" [node-2]=prefill-1 [node-3]=prefill-2 [node-4]=decode-1 [node-5]=decode-2
	[node-6]=decode-3 [node-7]=decode-4)
declare -A address=() process=() host_of=()

say() {
	echo "trial: $((SECONDS)) s: $*"
}

fail() {
	local name

	echo "trial: FAILED: $*" >&2
	for name in "${!host_of[@]}"; do
		case $name in redis-* | sentinel-*) continue ;; esac
		echo "== $name" >&2
		tail -n 5 "$dir/$name.log" >&2
	done
	exit 1
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
	local deadline=$((SECONDS + $1))

	shift
	until "$@" >"$dir/waited" 2>&1 </dev/null; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.1
	done
}

# ---- hosts ----

make_host() {
	local number=$((${#address[@]} + 1))

	unshare --net sleep infinity &
	process[$1]=$!
	address[$1]=10.88.0.$((number + 1))
	wait_for 10 apart "${process[$1]}" || fail "no namespace for $1"
	ip link add "$1" type veth peer name eth0 netns "${process[$1]}"
	ip link set "$1" master trial up
	on "$1" ip link set lo up
	on "$1" ip addr add "${address[$1]}/24" dev eth0
	on "$1" ip link set eth0 up
}

apart() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

on() {
	nsenter --net --target "${process[$1]}" "${@:2}"
}

# spawn HOST NAME COMMAND...
spawn() {
	on "$1" "${@:3}" >>"$dir/$2.log" 2>&1 </dev/null &
	process[$2]=$!
	host_of[$2]=$1
}

# A host loses its power: nothing leaves it any more, not even an end of a connection.
cut_power() {
	local name

	ip link set "$1" down
	for name in "${!host_of[@]}"; do
		if [ "${host_of[$name]}" = "$1" ]; then
			kill -KILL "${process[$name]}"
			wait "${process[$name]}" 2>/dev/null || true
			unset "host_of[$name]"
		fi
	done
}

# ---- the control plane ----

urls=
sentinels=

start_redis() {
	mkdir -p "$dir/redis-$1"
	spawn "$1" "redis-$1" redis-server --bind 0.0.0.0 --protected-mode no --dir "$dir/redis-$1" --save '' --appendonly yes \
		--appendfsync always --maxmemory-policy noeviction --min-replicas-to-write 1 --min-replicas-max-lag 3 \
		--repl-diskless-sync-delay 0 ${2:+--replicaof "${address[$2]}" 6379}
	wait_for 10 redis-cli -h "${address[$1]}" ping || fail "Redis on $1 does not answer"
}

start_sentinel() {
	local conf=$dir/sentinel-$1.conf

	# It keeps there what it learned.
	[ -f "$conf" ] || printf '%s\n' 'bind 0.0.0.0' 'protected-mode no' "dir $dir" \
		"sentinel monitor main ${address[ctl-1]} 6379 2" 'sentinel down-after-milliseconds main 2000' \
		'sentinel failover-timeout main 10000' >"$conf"
	spawn "$1" "sentinel-$1" redis-server "$conf" --sentinel
	wait_for 10 redis-cli -h "${address[$1]}" -p 26379 ping || fail "the sentinel on $1 does not answer"
}

start_nanoctrl() {
	mkdir -p "$dir/run-$1"
	# A lease shorter than the default, so that the trial is short, too.
	spawn "$1" "nanoctrl-$1" "$bin/nanoctrl" server --config configs/nanoctrl.yaml --runtime-dir "$dir/run-$1" \
		--host "${address[$1]}" --insecure --redis-url "redis+sentinel://$sentinels/main" \
		--set lease.ttl=6s --set lease.beat=2s --set server.compat=off
	wait_for 20 curl -sf "http://${address[$1]}:3000/readyz" || fail "nanoctrl on $1 is not ready"
}

primary() {
	redis-cli -h "${address[$1]}" -p 26379 sentinel get-master-addr-by-name main | head -n 1
}

primary_is_not() {
	local now

	now=$(primary "$1")
	[ -n "$now" ] && [ "$now" != "$2" ]
}

knows_the_others() {
	redis-cli -h "${address[$1]}" -p 26379 sentinel ckquorum main | grep -q '^OK 3 ' &&
		[ "$(redis-cli -h "${address[$1]}" -p 26379 sentinel replicas main | grep -c '^runid$')" -eq 2 ]
}

# On the command line of a host that nothing happens to.
control=ctl-3
ctl() {
	"$bin/nanoctrl" "$@" --address "http://${address[$control]}:3000"
}

# ---- agents ----

start_agent() {
	# The file of the Debian package, as a unit or a pod would change it.
	spawn "$1" "$2" "$bin/peeragent" --config deploy/debian/peeragent.yaml --set "agent.name=$2" --set "agent.scope=$scope" \
		--set "agent.labels={role: ${2%-*}}" --set "agent.state_dir=$dir/state-$2" --set "control={urls: [$urls]}" \
		--set "data.tcp.bind=${address[$1]}" --set "services=[{name: echo}, {name: bench}]"
}

start_node() {
	local name

	for name in ${agents_of[$1]}; do
		start_agent "$1" "$name"
	done
}

topology_is() {
	ctl get topologies --scope "$scope" | grep -qE "^serving .*$1"
}

# whole AGENTS: so many are registered, and each link that is wanted is connected.
whole() {
	[ "$(ctl get agents --scope "$scope" | grep -cE '^(prefill|decode)-')" -eq "$1" ] && topology_is ' ok ' &&
		ctl obs links --scope "$scope" --wait 1s
}

# becomes_whole SECONDS AGENTS
becomes_whole() {
	wait_for "$1" whole "$2" ||
		fail "not whole after $1 s: $(ctl get topologies --scope "$scope"; ctl obs links --scope "$scope")"
	say "$2 agents, $(ctl obs links --scope "$scope" | grep -c ' connected ') ends of links are connected"
}

# bench COMMAND FROM TO OPTION...: between two agents, over the transport that they choose.
bench() {
	say "slime-bench $1 from $2 to $3"
	on "$control" "$bin/slime-bench" "$1" --ctrl "http://${address[$control]}:3000" --scope "$scope" --from "$2" --peer "$3" \
		--tcp-bind "${address[$control]}" --duration 1s "${@:4}" 2>"$dir/bench.log" ||
		fail "slime-bench $1 from $2 to $3: $(cat "$dir/bench.log")"
}

# On one node, which is shared memory, and between two, which is tcp.
measure() {
	for peer in decode-0 decode-1; do
		bench rpc prefill-0 "$peer" --sizes 1KiB
		bench transfer prefill-0 "$peer" --op read --block-size 128KiB --batch-size 32
	done
}

# ---- the trial ----

ip link set lo up
ip link add trial type bridge
ip addr add 10.88.0.1/24 dev trial
ip link set trial up
for host in "${controls[@]}" node-{1..7}; do
	make_host "$host"
done
for host in "${controls[@]}"; do
	urls+=${urls:+, }\"http://${address[$host]}:3000\"
	sentinels+=${sentinels:+,}${address[$host]}:26379
done

say "Redis: a primary, two replicas, three sentinels"
start_redis ctl-1
start_redis ctl-2 ctl-1
start_redis ctl-3 ctl-1
for host in "${controls[@]}"; do
	start_sentinel "$host"
done
for host in "${controls[@]}"; do
	wait_for 30 knows_the_others "$host" || fail "the sentinels do not know each other"
done

say "three replicas of nanoctrl"
for host in "${controls[@]}"; do
	start_nanoctrl "$host"
done

say "eight agents on seven nodes, and a topology"
ctl apply -f configs/cluster-prefill-decode.yaml
for host in node-{1..7}; do
	start_node "$host"
done
becomes_whole 40 8
measure

say "node-7 loses its power"
cut_power node-7
becomes_whole 40 7
say "node-7 is back"
ip link set node-7 up
start_node node-7
becomes_whole 40 8

say "ctl-2 loses its power: a replica of nanoctrl, of Redis, and a sentinel"
cut_power ctl-2
becomes_whole 30 8
ip link set ctl-2 up
start_redis ctl-2 ctl-1
start_sentinel ctl-2
start_nanoctrl ctl-2
wait_for 30 knows_the_others ctl-3 || fail "ctl-2 is not whole again"

say "ctl-1 loses its power: the primary of Redis is there"
old=$(primary ctl-3)
[ "$old" = "${address[ctl-1]}" ] || fail "the primary is at $old"
cut_power ctl-1
wait_for 30 primary_is_not ctl-3 "$old" || fail "the sentinels chose no other primary"
wait_for 30 curl -sf "http://${address[ctl-3]}:3000/readyz" || fail "nanoctrl does not follow"
say "the primary is at $(primary ctl-3)"
becomes_whole 40 8
measure
say "ctl-1 is back"
ip link set ctl-1 up
start_redis ctl-1 "$([ "$(primary ctl-3)" = "${address[ctl-2]}" ] && echo ctl-2 || echo ctl-3)"
start_sentinel ctl-1
start_nanoctrl ctl-1
wait_for 30 knows_the_others ctl-3 || fail "ctl-1 is not whole again"
becomes_whole 30 8

say "the topology goes, and its links with it"
ctl delete topology serving --scope "$scope"
no_links() {
	! ctl obs links --scope "$scope" | grep -q ' connected '
}
wait_for 20 no_links || fail "links are left: $(ctl obs links --scope "$scope")"
say "done"
