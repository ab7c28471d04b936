# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests with real processes: Redis, nanoctrl and agents in a directory of their own. Everything that is
# started here ends with the test, also when the test is killed.
set -euo pipefail

bin=${SLIME_BIN:?the folder of the programs}
work=$(mktemp -d)
declare -A pids=()

# Leases short enough to watch their end.
lease=(--set lease.ttl=3s --set lease.beat=1s --set lease.grace=1s --set server.drain_accept=0s)

say() {
	echo "-- $*"
}

# What helps to find the cause of a failure.
logs() {
	local log

	for log in "$work"/*.err; do
		echo "== ${log##*/}"
		tail -n 30 "$log"
	done
}

fail() {
	echo "FAILED: $*"
	logs
	exit 1
}

cleanup() {
	local name

	for name in "${!pids[@]}"; do
		kill -KILL "${pids[$name]}" 2>/dev/null || true
	done
	wait
	rm -rf "$work"
}
trap cleanup EXIT

skip() {
	echo "skipped: $*"
	exit 77
}

pause=0.05 # seconds between two looks
# wait_for SECONDS COMMAND...: until the command succeeds. What has to happen in that time has six times as long before
# the test fails: the machine may be busy with other things.
wait_for() {
	local deadline=$((SECONDS + 6 * $1))
	shift

	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep "$pause"
	done
}

# spend SECONDS: only where the passing of time is what is tested.
spend() {
	sleep "$1"
}

# In clock ticks: user and system time of a process and its threads.
ticks() {
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# How often the threads of a process slept, and so were woken.
sleeps() {
	cat "/proc/$1"/task/*/status | awk '/^voluntary_ctxt_switches:/ { n += $2 } END { print n }'
}

# spawn NAME COMMAND...: in the background, its output in NAME.out and NAME.err; it dies with us. What a former NAME said
# is gone when this returns: nobody takes it for what the new one says.
spawn() {
	local name=$1
	shift

	: >"$work/$name.out"
	: >"$work/$name.err"
	setpriv --pdeathsig KILL -- "$@" >"$work/$name.out" 2>"$work/$name.err" &
	pids[$name]=$!
}

# end NAME [SIGNAL]: its exit status is in $status.
end() {
	kill -"${2:-TERM}" "${pids[$1]}" 2>/dev/null || true
	reap "$1"
}

# shellcheck disable=SC2034 # status is for the test
reap() {
	status=0
	wait "${pids[$1]}" || status=$?
	unset "pids[$1]"
}

start_redis() {
	command -v redis-server >/dev/null || skip "redis-server is not installed"
	spawn redis redis-server --port 0 --unixsocket "$work/redis.sock" --unixsocketperm 600 --dir "$work" \
		--save '' --appendonly yes --appendfsync always --maxmemory-policy noeviction
	wait_for 10 redis-cli -s "$work/redis.sock" ping || fail "Redis does not answer"
}

# bind_port NAME: a port that nobody else has while the process of this name lives, in NAME.out: a socket that is bound
# and does not listen keeps it from everybody who has not set SO_REUSEADDR, and from the kernel's own choice.
bind_port() {
	spawn "$1" python3 -c '
import signal, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()'
	wait_for 10 test -s "$work/$1.out" || fail "no port"
}

# A port for nanoctrl, killed or not.
hold_port() {
	bind_port port
	port=$(cat "$work/port.out")
}

# take_port NAME: a port that nobody else has while the test runs, also while NAME is dead; in port_of[NAME].
declare -A port_of=()
# shellcheck disable=SC2034 # it is for the test
take_port() {
	bind_port "hold-$1"
	port_of[$1]=$(cat "$work/hold-$1.out")
}

# Always on the same port.
port=
url=
start_nanoctrl() {
	[ -n "$port" ] || hold_port
	spawn nanoctrl "$bin/nanoctrl" server --port "$port" --runtime-dir "$work/nanoctrl" \
		--redis-url "unix://$work/redis.sock" "${lease[@]}"
	wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
	url=$(sed -n 's/.*serves at //p' "$work/nanoctrl.out")
}

start_control() {
	start_redis
	start_nanoctrl
}

# start_agent NAME [OPTION...]: from NAME.yaml, which write_agent made, or the caller.
start_agent() {
	spawn "$1" "$bin/peeragent" --config "$work/$1.yaml" --set "control.url=$url" "${@:2}"
}

# write_agent NAME [LINE...]: a file with these lines added.
write_agent() {
	{
		echo "version: 1"
		echo "agent: { name: $1, scope: test, state_dir: $work/state }"
		echo "control: { url: \"http://127.0.0.1:1\" }"
		printf '%s\n' "${@:2}"
	} >"$work/$1.yaml"
}

is_ready() {
	grep -q '^ready: ' "$work/$1.out"
}

wait_ready() {
	local name

	for name in "$@"; do
		wait_for 15 is_ready "$name" || fail "$name is not ready"
	done
}

# All links of the scope, one a line: AGENT PEER PROFILE STATE TRANSPORT.
links() {
	"$bin/nanoctrl" obs links --address "$url" --scope test --json |
		tr '{' '\n' | sed -n 's/.*"agent":"\([^"]*\)","peer":"\([^"]*\)","profile":"\([^"]*\)","state":"\([^"]*\)".*"transport":"\?\([a-z]*\).*/\1 \2 \3 \4 \5/p'
}

link_is() {
	grep -q -- "$*" <<<"$(links)"
}

# wait_link SECONDS AGENT PEER PROFILE STATE
wait_link() {
	wait_for "$1" link_is "${@:2}" || fail "no link ${*:2}: $(links)"
}

# The registrations of the scope: their names.
agent_is_there() {
	curl -sf "$url/v1/agents/$1?scope=test" >/dev/null
}

# Of one that cannot be asked, nothing is known.
agent_is_gone() {
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/agents/$1?scope=test")" = 404 ]
}

# server_metric NAME: of nanoctrl.
server_metric() {
	curl -sf "$url/metrics" | sed -n "s/^$1 //p"
}

# What node-a and node-b are registered as: another number after they had to register again.
generations() {
	local name

	for name in node-a node-b; do
		curl -sf "$url/v1/agents/$name?scope=test" | sed 's/.*"generation":\([0-9]*\).*/\1/'
	done
}

# metric AGENT NAME...: the value of the line that has all of these.
metric() {
	local address line pattern
	address=$(sed -n 's/.*metrics=//p' "$work/$1.out")
	line=$(curl -sf "http://$address/metrics" | grep -v '^#')
	for pattern in "${@:2}"; do
		line=$(grep -F -- "$pattern" <<<"$line")
	done
	echo "${line##* }"
}
