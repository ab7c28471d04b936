#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two agents move memory and call each other, on this machine: installs what is missing, builds, starts nanoctrl and the
# agents of configs/quickstart, measures between them, stops everything.
set -euo pipefail

usage() {
	cat <<'END'
usage: deploy/quickstart.sh [--keep] [--no-build] [--rdma]

  --keep       leave the cluster up, and say how to reach it and how to stop it
  --no-build   use the programs that build/release holds, or those in $SLIME_BIN
  --rdma       over RDMA devices instead of shared memory and TCP; a host that has none that can be used starts a
               virtual machine with two in software, which is slow (not with --keep)
END
}

keep=0
build=1
rdma=0
while [ $# -gt 0 ]; do
	case $1 in
	--keep) keep=1 ;;
	--no-build) build=0 ;;
	--rdma) rdma=1 ;;
	-h | --help)
		usage
		exit
		;;
	*)
		usage >&2
		echo "quickstart.sh: unknown argument: $1" >&2
		exit 2
		;;
	esac
	shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$PWD/build/release/bin
[ "$build" -eq 1 ] || bin=${SLIME_BIN:-$bin}
programs=(nanoctrl peeragent slime-tool slime-bench bench_service)
scope=quickstart
agents=(node-a node-b)
dir=
started=0
log=
kept_log=
declare -A pids=()

say() {
	echo "quickstart: $*"
}

# The cause is the end of the step's log.
fail() {
	echo "quickstart: FAILED: $*" >&2
	if [ -n "$log" ] && [ -s "$log" ]; then
		tail -n 15 "$log" | sed 's/^/    /' >&2
		kept_log=$log
	fi
	exit 1
}

# step WHAT LOG COMMAND...: a command whose output is for its log.
step() {
	say "$1"
	log=$2
	shift 2
	"$@" >"$log" 2>&1 </dev/null || fail "$*"
	log=
}

# ---- the end ----

# An agent has some seconds to leave by itself.
stop_agent() {
	local pid=${pids[$1]}

	kill -TERM "$pid" 2>/dev/null || return 0
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL "$pid" 2>/dev/null || true
}

stop_all() {
	local name

	for name in "${!pids[@]}"; do
		stop_agent "$name"
	done
	if [ "$started" -eq 1 ]; then
		"$bin/nanoctrl" stop --runtime-dir "$dir/nanoctrl" >/dev/null 2>&1 || true
	fi
}

finish() {
	local status=$?

	trap - EXIT
	trap '' INT TERM
	if [ "$keep" -eq 1 ] && [ "$status" -eq 0 ]; then
		exit 0
	fi
	if [ "$started" -eq 1 ]; then
		say "stopping the agents and nanoctrl"
		stop_all
	fi
	if [ -n "$kept_log" ]; then
		echo "quickstart: the whole log is $kept_log" >&2
	elif [ -n "$dir" ]; then
		rm -rf "$dir"
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- the beginning ----

# One build at a time: another quickstart may be at it.
build_all() (
	mkdir -p build
	exec 9>build/.quickstart.lock
	flock 9
	# Tests are not needed here, and neither is what only they need.
	cmake --preset release -DSLIME_BUILD_TESTS=OFF && cmake --build --preset release --target "${programs[@]}"
)

dir=$(mktemp -d -t slime-quickstart.XXXXXXXX)
if [ "$build" -eq 1 ]; then
	missing=$(deploy/packages.sh build --missing)
	if [ -n "$missing" ]; then
		step "installing $(wc -l <<<"$missing") packages" "$dir/packages.log" deploy/packages.sh build
	fi
	step "building the release preset, in build/release" "$dir/build.log" build_all
fi
[ -x "$bin/slime-bench" ] || fail "there is no $bin/slime-bench: run without --no-build"

# The same script once more, where soft-RoCE makes two devices; it sees this host's files, and so the programs.
run_in_guest() {
	local missing

	[ -z "${SLIME_IN_GUEST:-}" ] || fail "no RDMA device can be used in the virtual machine either: $(cat "$dir/devices.log")"
	[ "$keep" -eq 0 ] || fail "no RDMA device can be used here: a virtual machine ends with this script, without --keep"
	missing=$(deploy/packages.sh guest --missing)
	if [ -n "$missing" ]; then
		step "installing $(wc -l <<<"$missing") packages" "$dir/packages.log" deploy/packages.sh guest
	fi
	say "no RDMA device can be used here (slime devices says why): two in software, in a virtual machine"
	tests/rdma/guest.sh -- env SLIME_IN_GUEST=1 SLIME_BIN="$bin" bash -c 'tests/rdma/devices.sh && deploy/quickstart.sh --no-build --rdma'
}

transports=(shm tcp)
options=()
if [ "$rdma" -eq 1 ]; then
	if ! "$bin/slime" devices >"$dir/devices.log" 2>&1; then
		run_in_guest
		exit
	fi
	transports=("rdma")
	options=(--sizes "1KiB,16KiB,256KiB,1MiB" --duration 2s) # the time of each size, where devices are emulated
fi

start_nanoctrl() {
	started=1
	"$bin/nanoctrl" start --port 0 --runtime-dir "$dir/nanoctrl" --data-dir "$dir/data"
}
step "starting nanoctrl with its private Redis" "$dir/start.log" start_nanoctrl
url=$(sed -n 's/^address: //p' "$dir/start.log")

# In a session of its own: a Ctrl-C is ours to handle, and with --keep it outlives us.
start_agent() {
	local -a set=(--set "control.url=$url" --set "agent.state_dir=$dir/state")

	if [ "$rdma" -eq 1 ] && [ "$1" = node-a ]; then
		set+=(--set 'links=[{to: node-b, profile: rdma, transports: [rdma]}]')
	fi
	setsid "$bin/peeragent" --config "configs/quickstart/$1.yaml" "${set[@]}" >"$dir/$1.out" 2>"$dir/$1.log" </dev/null &
	pids[$1]=$!
}

wait_ready() {
	log=$dir/$1.log
	for _ in $(seq 300); do
		if grep -qs '^ready: ' "$dir/$1.out"; then
			log=
			return
		fi
		kill -0 "${pids[$1]}" 2>/dev/null || fail "the agent $1 ended"
		sleep 0.1
	done
	fail "the agent $1 is not ready after 30 s"
}

say "starting the agents ${agents[*]} at $url"
for name in "${agents[@]}"; do
	start_agent "$name"
done
for name in "${agents[@]}"; do
	wait_ready "$name"
done

step "waiting until their links are connected" "$dir/links.log" \
	"$bin/nanoctrl" obs links --address "$url" --scope "$scope" --wait 20s
cat "$dir/links.log"

# ---- what it is about ----

# measure WHAT TRANSPORT [OPTION...]: between the two agents, node-a initiates.
measure() {
	local what=$1 transport=$2
	shift 2

	echo
	say "slime-bench $what over $transport, from node-a to node-b"
	log=$dir/bench.log
	"$bin/slime-bench" "$what" --ctrl "$url" --scope "$scope" --from node-a --peer node-b \
		--transport "$transport" "$@" 2>"$log" </dev/null || fail "slime-bench $what over $transport"
	log=
}

for transport in "${transports[@]}"; do
	measure rpc "$transport" --iterations 50 "${options[@]}"
	measure transfer "$transport" --op read --block-size 128KiB --batch-size 32 --duration 2s
done
echo

# Which process, for ever: a pid alone may be another's by then.
identity() {
	echo "$1 $(sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20) $(cat /proc/sys/kernel/random/boot_id)"
}

# Also what has to be stopped by hand later: the script that does it.
write_stop() {
	local name

	cat <<'END'
#!/bin/sh
# stop PID START BOOT: that process, which began so many ticks after that boot.
stop() {
	[ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20)" = "$2" ] || return 0
	[ "$(cat /proc/sys/kernel/random/boot_id)" = "$3" ] || return 0
	kill -TERM "$1"
}
END
	for name in "${agents[@]}"; do
		echo "stop $(identity "${pids[$name]}")"
	done
	printf '%q stop --runtime-dir %q\n' "$bin/nanoctrl" "$dir/nanoctrl"
	printf 'rm -rf %q\n' "$dir"
}

if [ "$keep" -eq 1 ]; then
	write_stop >"$dir/stop"
	chmod +x "$dir/stop"
	say "the cluster is up: nanoctrl at $url, scope $scope, agents ${agents[*]}, logs in $dir"
	say "its links:  $bin/nanoctrl obs links --address $url --scope $scope"
	say "measure:    $bin/slime-bench transfer --ctrl $url --scope $scope --peer node-b"
	say "stop it:    $dir/stop"
else
	say "done"
fi
