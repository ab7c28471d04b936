#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is wrong with a file is said with its place, nothing is started, and the exit status is 2.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# refuse WHERE WHAT FILE-TEXT: the first line of the errors begins with FILE:WHERE and has WHAT.
refuse() {
	local first status=0 checked=0

	printf '%b' "$3" >"$work/bad.yaml"
	"$bin/peeragent" --config "$work/bad.yaml" >"$work/bad.out" 2>"$work/bad.err" || status=$?
	"$bin/peeragent" --config "$work/bad.yaml" --check >"$work/check.err" 2>&1 || checked=$?
	[ "$checked" -eq 2 ] || fail "--check says $checked for: $3"
	cmp -s "$work/check.err" "$work/bad.err" || fail "--check says something else for: $3"
	first=$(head -n 1 "$work/bad.err")
	[ "$status" -eq 2 ] || fail "exit status $status for: $3"
	[[ "$first" == "$work/bad.yaml:$1: "*"$2"* ]] || fail "expected $1 $2, got: $first"
	[ ! -s "$work/bad.out" ] || fail "it went on"
}

head='version: 1\nagent: { name: a }\ncontrol: { url: "http://127.0.0.1:1" }\n'

refuse 2:16 'expected a name' 'version: 1\nagent: { name: "a b" }\ncontrol: { url: "http://x" }\n'
refuse 2:16 'expected a name' 'version: 1\nagent: { name: .. }\ncontrol: { url: "http://x" }\n'
refuse 2:19 'unknown key "scpe"' 'version: 1\nagent: { name: a, scpe: b }\ncontrol: { url: "http://x" }\n'
refuse 2:26 'expected a scope' 'version: 1\nagent: { name: a, scope: obs }\ncontrol: { url: "http://x" }\n'
refuse 2:27 'agent.labels: expected a label key' 'version: 1\nagent: { name: a, labels: { name: x } }\ncontrol: { url: "http://x" }\n'
refuse 1:10 'version' 'version: 2\nagent: { name: a }\ncontrol: { url: "http://x" }\n'
refuse 3:17 'control.url: expected the URL' 'version: 1\nagent: { name: a }\ncontrol: { url: "ftp://x" }\n'
refuse 3:33 'control.urls.1: expected the URL' 'version: 1\nagent: { name: a }\ncontrol: { urls: ["http://x:1", x] }\n'
refuse 1:1 'expected the URL of nanoctrl' 'version: 1\nagent: { name: a }\n'
refuse 4:30 'expected a size' "${head}regions: [ { name: kv, size: lots } ]\n"
refuse 4:46 'regions.1.name' "${head}regions: [ { name: kv, size: 4KiB }, { name: kv, size: 4KiB } ]\n"
refuse 4:51 'read, write' "${head}regions: [ { name: kv, size: 4KiB, access: [read, exec] } ]\n"
refuse 4:44 'label=value' "${head}regions: [ { name: kv, size: 4KiB, allow: [decode] } ]\n"
refuse 4:43 'regions.0.allow: expected at least one selector' "${head}regions: [ { name: kv, size: 4KiB, allow: [] } ]\n"
refuse 4:16 'another agent' "${head}links: [ { to: a } ]\n"
refuse 4:27 'another agent or profile' "${head}links: [ { to: b }, { to: b } ]\n"
refuse 4:24 'qps' "${head}links: [ { to: b, qps: 9 } ]\n"
refuse 4:26 'rails' "${head}links: [ { to: b, rails: 9 } ]\n"
refuse 4:34 'a bandwidth such as 100Gbps' "${head}links: [ { to: b, min_bandwidth: fast } ]\n"
refuse 4:29 'expected an RDMA device of this host' "${head}links: [ { to: b, devices: [no_such_0] } ]\n"
refuse 4:29 'as mlx5_0:2' "${head}links: [ { to: b, devices: ['x:0'] } ]\n"
refuse 4:33 'each once' "${head}links: [ { to: b, peer_devices: [x, x] } ]\n"
refuse 4:32 'transports' "${head}links: [ { to: b, transports: [pigeon] } ]\n"
refuse 4:13 'name or plugin' "${head}services: [ {} ]\n"
refuse 4:20 'ADDRESS:PORT' "${head}metrics: { listen: nowhere }\n"

refuse 5:1 'regions: expected at most 1024 regions' "${head}regions:\n$(printf -- '- { name: r%s, size: 4KiB }\n' {1..10000})"

say "what this machine does not have"
refuse 4:14 'expected a CPU' "${head}data: { cpu: 1023 }\n"
refuse 4:14 'expected a CPU' "${head}data: { cpu: 4000 }\n"
refuse 4:42 'expected a NUMA node' "${head}regions: [ { name: kv, size: 4KiB, numa: 1023 } ]\n"
refuse 4:30 'expected at most the memory' "${head}regions: [ { name: kv, size: 64TiB } ]\n"
refuse 4:47 'rdma among data.transports' "${head}regions: [ { name: kv, size: 4KiB, on_demand: true } ]\ndata: { transports: [shm, tcp] }\n"
refuse 4:12 'regions.0.gpu: expected the PCI address of a GPU' "${head}regions: [ { name: kv, size: 4KiB, backing: cuda } ]\n"
refuse 4:41 'expected a PCI address of this machine' "${head}regions: [ { name: kv, size: 4KiB, gpu: 'ffff:99:00.0', backing: cuda } ]\n"
refuse 4:41 'expected backing: cuda with it' "${head}regions: [ { name: kv, size: 4KiB, gpu: '0000:00:00.0' } ]\n"
refuse 4:22 'expected a numeric address' "${head}data: { tcp: { bind: nowhere } }\n"
refuse 4:22 'an interface of this host, or a network' "${head}data: { tcp: { bind: 192.0.2.0/33 } }\n"
refuse 4:22 'expected a network in which this host has an address' "${head}data: { tcp: { bind: 198.51.100.0/24 } }\n"
refuse 4:22 'expected a network in which this host has an address' "${head}data: { tcp: { bind: '2001:db8::/32' } }\n"
refuse 4:22 'data.tcp.advertise' "${head}data: { tcp: { bind: 0.0.0.0 } }\n"
refuse 4:22 'data.tcp.advertise' "${head}data: { tcp: { bind: '::' } }\n"
refuse 4:22 'expected an address of this host' "${head}data: { tcp: { bind: 192.0.2.7 } }\n"
refuse 4:42 'expected a numeric address' "${head}data: { tcp: { bind: 0.0.0.0, advertise: host } }\n"
refuse 4:42 'expected a numeric address' "${head}data: { tcp: { bind: 0.0.0.0, advertise: '::' } }\n"
refuse 4:27 'expected an RDMA device of this host' "${head}data: { rdma: { devices: [no_such_0] } }\n"
refuse 4:26 'expected at most 8' "${head}data: { rdma: { devices: [a, b, c, d, e, f, g, h, i] } }\n"
refuse 4:27 'expected "all" alone' "${head}data: { rdma: { devices: [all, mlx5_0] } }\n"
[ -n "$(ls -A /sys/class/infiniband 2>/dev/null)" ] ||
	refuse 4:27 'expected an RDMA device of this host' "${head}data: { rdma: { devices: [all] } }\n"
refuse 4:27 'as mlx5_0:2' "${head}data: { rdma: { devices: ['mlx5_0:0'] } }\n"
refuse 4:27 'as mlx5_0:2' "${head}data: { rdma: { devices: ['mlx5_0,mlx5_1'] } }\n"
refuse 4:23 'position, numa' "${head}data: { rdma: { pair: node } }\n"
refuse 4:28 'gid_index' "${head}data: { rdma: { gid_index: best } }\n"
refuse 4:28 'expected an integer from 0 to 255' "${head}data: { rdma: { gid_index: 256 } }\n"
refuse 4:26 'timeout' "${head}data: { rdma: { timeout: 32 } }\n"
refuse 4:17 'gid_index' "${head}data: { rdma: { gid_indx: 3 } }\n"
refuse 4:20 'expected a numeric address' "${head}metrics: { listen: 'localhost:0' }\n"
refuse 4:20 'expected an address of this host' "${head}metrics: { listen: '192.0.2.7:0' }\n"
refuse 4:14 'expected a file' "${head}log: { file: $work/none/log }\n"
refuse 4:14 'expected a file' "${head}log: { file: $work }\n"
refuse 4:14 'expected a file' "${head}log: { file: '' }\n"
refuse 2:30 'what it would be in is not there' "version: 1\nagent: { name: a, state_dir: $work/no/where }\ncontrol: { url: 'http://x' }\n"
refuse 2:30 'expected a directory' "version: 1\nagent: { name: a, state_dir: $work/bad.yaml }\ncontrol: { url: 'http://x' }\n"
refuse 2:30 'expected a directory' "version: 1\nagent: { name: a, state_dir: '' }\ncontrol: { url: 'http://x' }\n"
refuse 2:269 'expected agent.scope and agent.name of at most 243 bytes together' "version: 1\nagent: { name: $(printf 'x%.0s' {1..240}), state_dir: $work }\ncontrol: { url: 'http://x' }\n"
refuse 2:28 'at most 253 bytes' "version: 1\nagent: { name: a, address: $(printf 'x%.0s' {1..254}) }\ncontrol: { url: 'http://x' }\n"
refuse 3:18 'expected at most 16' "version: 1\nagent: { name: a }\ncontrol: { urls: [$(printf "'http://x',%.0s" {1..17})] }\n"
(umask 077 && echo "two words" >"$work/token")
refuse 3:41 'expected a token' "version: 1\nagent: { name: a }\ncontrol: { url: 'http://x', token_file: $work/token }\n"

say "regions that are too much together, which are not started: nobody populates them for a test"
printf '%b' "${head}regions: [ { name: kv, size: 64TiB } ]\n" >"$work/much.yaml"
"$bin/peeragent" --config "$work/much.yaml" --check 2>"$work/much.err" && fail "64 TiB are accepted"
# What there is here, in bytes.
all=$(sed -n 's/.*control group here, //p' "$work/much.err" | numfmt --from=iec-i --suffix=B)
most=$((${all%B} * 6 / 10))
printf '%b' "${head}regions: [ { name: kv, size: $most }, { name: b, size: $most } ]\n" >"$work/much.yaml"
status=0
"$bin/peeragent" --config "$work/much.yaml" --check 2>"$work/much.err" || status=$?
[ "$status" -eq 2 ] || fail "exit status $status"
grep -q '^[^ ]*: regions.1.size: expected at most what the regions before it leave' "$work/much.err" || fail "got: $(cat "$work/much.err")"

say "services that are not there"
refuse 4:21 'expected a service' "${head}services: [ { name: nonsense } ]\n"
refuse 4:21 'expected a service' "${head}services: [ { name: ../../etc/passwd } ]\n"
refuse 4:37 'another service than "echo"' "${head}services: [ { name: echo }, { name: echo } ]\n"
refuse 4:36 'x: expected max_message, got "y"' "${head}services: [ { name: echo, options: { x: y } } ]\n"
refuse 4:37 'size: expected a size' "${head}services: [ { name: bench, options: { size: 7 } } ]\n"
refuse 4:37 'size: expected a size' "${head}services: [ { name: bench, options: { size: '-18446744073709543424' } } ]\n"
refuse 4:23 'none.so' "${head}services: [ { plugin: $work/none.so } ]\n"
refuse 4:23 'bad.yaml' "${head}services: [ { plugin: $work/bad.yaml } ]\n"

say "services that are"
printf '%b' "${head}services: [ { name: echo, options: { max_message: 1MiB } }, { name: bench, options: { size: 1MiB } } ]\n" >"$work/services.yaml"
"$bin/peeragent" --config "$work/services.yaml" --check || fail "--check"

say "an agent that other hosts cannot reach over tcp, and nanoctrl on another host"
# check WARNED CONTROL-URL MORE: --check accepts the file, and warns or does not.
check() {
	printf '%b' "version: 1\nagent: { name: a }\ncontrol: { url: '$2' }\n$3\n" >"$work/warned.yaml"
	"$bin/peeragent" --config "$work/warned.yaml" --check >"$work/warned.out" 2>&1 || fail "--check refuses: $3"
	if [ "$1" = warns ]; then
		grep -q "^warning: data.tcp.bind is 127.0.0.1, which is loopback, while nanoctrl is at $2: " "$work/warned.out" ||
			fail "no warning for $2 $3: $(cat "$work/warned.out")"
	else
		[ ! -s "$work/warned.out" ] || fail "for $2 $3: $(cat "$work/warned.out")"
	fi
}
check warns http://192.0.2.1:3000 ''
check warns http://192.0.2.1:3000 'data: { transports: [rdma] }\nlinks: [ { to: b, transports: [tcp] } ]'
check accepts http://127.0.0.1:3000 ''
check accepts http://localhost:3000 ''
check accepts 'http://[::1]:3000' ''
check accepts http://192.0.2.1:3000 'data: { transports: [rdma] }'
check accepts http://192.0.2.1:3000 'data: { tcp: { bind: "" } }'
check accepts http://192.0.2.1:3000 'data: { tcp: { bind: 0.0.0.0, advertise: 192.0.2.2 } }'
check warns http://0.0.0.0:1 ''
spawn warned "$bin/peeragent" --config "$work/warned.yaml"
wait_for 10 grep -q 'warn peeragent: data.tcp.bind is 127.0.0.1' "$work/warned.err" || fail "no warning at start: $(cat "$work/warned.err")"
end warned

say "ports of tcp"
refuse 4:22 'expected a port from 0 to 65535, or a range' "${head}data: { tcp: { port: 47099-47000 } }\n"
refuse 4:22 'expected a port from 0 to 65535, or a range' "${head}data: { tcp: { port: 0-47000 } }\n"
refuse 4:22 'expected a port from 0 to 65535, or a range' "${head}data: { tcp: { port: 65536 } }\n"
refuse 4:22 'expected a port from 0 to 65535, or a range' "${head}data: { tcp: { port: '47000-' } }\n"

say "a file that is not there"
status=0
"$bin/peeragent" --config "$work/none.yaml" 2>"$work/none.err" || status=$?
[ "$status" -eq 2 ] || fail "exit status $status"
grep -q "^$work/none.yaml: " "$work/none.err" || fail "got: $(cat "$work/none.err")"

say "why it does not start is on standard error, too, when the log is a file"
spawn taken python3 -c '
import signal, socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()'
wait_for 10 test -s "$work/taken.out" || fail "no port"
taken=$(cat "$work/taken.out")
printf '%b' "${head}metrics: { listen: '127.0.0.1:$taken' }\nlog: { file: $work/log }\n" >"$work/taken.yaml"
status=0
"$bin/peeragent" --config "$work/taken.yaml" 2>"$work/start.err" || status=$?
[ "$status" -eq 1 ] || fail "exit status $status"
grep -qx "peeragent: cannot start: Address already in use (log: $work/log)" "$work/start.err" || fail "got: $(cat "$work/start.err")"
grep -q 'error peeragent: cannot start: Address already in use' "$work/log" || fail "its log: $(cat "$work/log")"
end taken

say "--set is checked like the file"
printf '%b' "$head" >"$work/good.yaml"
status=0
"$bin/peeragent" --config "$work/good.yaml" --check --set links.0.to=a 2>"$work/set.err" || status=$?
[ "$status" -eq 2 ] || fail "exit status $status"
grep -q '^peeragent: --set links.0.to: ' "$work/set.err" || fail "got: $(cat "$work/set.err")"

say "--check and --print-config start nothing, and what is printed reads back to the same"
"$bin/peeragent" --config "$work/good.yaml" --check || fail "--check"
"$bin/peeragent" --config "$work/good.yaml" --set data.polling=event --set 'regions=[{name: kv, size: 4KiB}]' --print-config >"$work/printed.yaml"
grep -q 'polling: event' "$work/printed.yaml" || fail "--set is not in what is printed"
"$bin/peeragent" --config "$work/printed.yaml" --print-config | cmp - "$work/printed.yaml" || fail "it reads back differently"

say "the files of the repository are right"
for file in "${SLIME_SOURCE:?}"/configs/quickstart/*.yaml "$SLIME_SOURCE"/configs/node*.yaml; do
	"$bin/peeragent" --config "$file" --check || fail "$file"
done
