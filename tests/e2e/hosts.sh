#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two agents on two hosts, which are network namespaces: what a link over tcp needs, and what is said where it is missing.
if [ -z "${E2E_HOSTS:-}" ]; then
	alone=(unshare --net)
	"${alone[@]}" true 2>/dev/null || alone=(unshare --user --map-root-user --net)
	"${alone[@]}" ip link add test type veth 2>/dev/null || {
		echo "skipped: no network namespaces, or no ip(8)"
		exit 77
	}
	E2E_HOSTS=1 exec "${alone[@]}" bash "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# Its process is the other host.
ip link set lo up
spawn host unshare --net sleep infinity
other_host() {
	nsenter --net --target "${pids[host]}" "$@"
}
is_apart() {
	[ "$(readlink "/proc/${pids[host]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}
wait_for 10 is_apart || fail "no other host"
ip link add here type veth peer name there netns "${pids[host]}"
ip addr add 10.77.0.1/24 dev here
ip link set here up
other_host ip addr add 10.77.0.2/24 dev there
other_host ip link set there up
other_host ip link set lo up

start_redis
spawn nanoctrl "$bin/nanoctrl" server --host 10.77.0.1 --insecure --port 3000 --runtime-dir "$work/nanoctrl" \
	--redis-url "unix://$work/redis.sock" "${lease[@]}"
wait_for 15 grep -q 'serves at' "$work/nanoctrl.out" || fail "nanoctrl does not serve"
url=http://10.77.0.1:3000

# start_there NAME [OPTION...]: as start_agent, on the other host.
start_there() {
	spawn "$1" nsenter --net --target "${pids[host]}" "$bin/peeragent" --config "$work/$1.yaml" \
		--set "control.url=$url" "${@:2}"
}

write_agent node-a 'links: [ { to: node-b, transports: [tcp] } ]'
write_agent node-b

say "two agents with the default bind"
start_agent node-a
start_there node-b
wait_ready node-a node-b
for node in node-a node-b; do
	grep -q " data.tcp.bind is 127.0.0.1, which is loopback, while nanoctrl is at $url: " "$work/$node.err" ||
		fail "$node does not warn: $(cat "$work/$node.err")"
done
cause=' offered 127\.0\.0\.1:[0-9]+, which is loopback, and nothing listens there: if \1 is on another host, set its data\.tcp\.bind$'
explains() {
	"$bin/nanoctrl" explain "$1" --address "$url" --scope test >"$work/explained" && grep -qE -- "$2" "$work/explained"
}
wait_for 10 explains node-a "(node-[ab])$cause" || fail "$(cat "$work/explained")"
wait_for 10 grep -qE "link node-[ab]/default is broken: .*(node-[ab])$cause" "$work/node-a.err" "$work/node-b.err" ||
	fail "not in the log: $(cat "$work/node-a.err" "$work/node-b.err")"

say "one of them can be reached, at a port of a range"
end node-b
start_there node-b --set data.tcp.bind=10.77.0.2 --set data.tcp.port=47000-47009
wait_ready node-b
grep -q 'listening at 10.77.0.2:47000$' "$work/node-b.err" || fail "$(cat "$work/node-b.err")"
wait_link 10 node-a node-b default connected tcp

say "a second agent there takes the next port"
write_agent node-c 'links: [ { to: node-a, transports: [tcp] } ]'
start_there node-c --set data.tcp.bind=10.77.0.2 --set data.tcp.port=47000-47009
wait_ready node-c
grep -q 'listening at 10.77.0.2:47001$' "$work/node-c.err" || fail "$(cat "$work/node-c.err")"
wait_link 10 node-c node-a default connected tcp

say "no port of the range is left"
status=0
other_host "$bin/peeragent" --config "$work/node-c.yaml" --set data.tcp.bind=10.77.0.2 --set data.tcp.port=47000-47001 \
	>"$work/none.out" 2>"$work/none.err" || status=$?
[ "$status" -eq 1 ] || fail "exit status $status"
grep -q 'cannot listen at 10.77.0.2:47000, or at a port up to 47001: Address already in use$' "$work/none.err" ||
	fail "$(cat "$work/none.err")"

say "the network between the hosts is cut: whoever has an idle link hears of it within 2.5 s"
end node-b
start_there node-b --set data.tcp.bind=10.77.0.2 --set data.tcp.port=47010-47019
wait_ready node-b
spawn watch "${SLIME_BUILD:?}/tests/peeragent-watch" "$url" test node-b tcp
wait_for 15 grep -q connected "$work/watch.out" || fail "not connected: $(cat "$work/watch.err")"
reset_at() {
	sed -n 's/^\([0-9]*\) node-b reset .*/\1/p' "$work/watch.out" | head -1
}
is_reset() {
	[ -n "$(reset_at)" ]
}
before=$(date +%s%3N)
other_host ip link set there down
wait_for 10 is_reset || fail "no reset: $(cat "$work/watch.out" "$work/watch.err")"
took=$(($(reset_at) - before))
echo "reset after $took ms"
[ "$took" -le 2500 ] || fail "reset after $took ms"
