#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The echo service, and plugins: loaded, started, called, stopped. What cannot be had, also memory, stops the program and is said.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

tests=${SLIME_BUILD:?}/tests
write_agent node-b "services: [ { name: echo }, { plugin: $tests/plugin_upper.so, options: { parting: goodbye, ask: loop } } ]"
start_control
start_agent node-b --set control.snapshots=200ms
wait_ready node-b

call() {
	"$tests/peeragent-call" "$url" test node-b "$@"
}

say "calls"
[ "$(call echo hello)" = hello ] || fail "echo"
[ "$(call upper hello)" = HELLO ] || fail "upper"
call nothing hello 2>"$work/nothing.err" && fail "an unknown method answered"
grep -q 'not implemented' "$work/nothing.err" || fail "$(cat "$work/nothing.err")"

say "what it told nanoctrl has what snapshots of DLSlime's agents have"
has_members() {
	curl -sf "$url/v1/snapshots?scope=test" | python3 -c '
import json, sys

traffic = """assign_total batch_total submitted_bytes_total completed_bytes_total failed_bytes_total pending_ops
	error_total"""
regions = "user_mr_count user_mr_bytes sys_mr_count sys_mr_bytes mr_count mr_bytes"
posts = "post_batch_total post_wr_total post_bytes_total post_failures_total cq_errors_total"
by_op = """assign batch submitted_bytes completed_bytes failed_bytes pending errors post_batch post_wr post_bytes
	post_failures"""

def numbers(of, names):
	for name in names.split():
		if not isinstance(of.get(name), int):
			sys.exit(f"no number {name} in {of}")

s = next(s for s in json.load(sys.stdin)["snapshots"] if s["peer_id"] == "node-b")
if not isinstance(s.get("ewma_bandwidth_bps"), float):
	sys.exit("no ewma_bandwidth_bps")
numbers(s["summary"], traffic + " " + regions)
numbers(s["summary"]["pending_by_op"], "read write write_with_imm send recv imm_recv")
served = 0
for nic in s["nics"]:
	numbers(nic, traffic + " " + posts)
	if not isinstance(nic["ewma_bandwidth_bps"], float) or nic["nic_bdf"] != "":
		sys.exit(f"{nic}")
	for op in nic["by_op"].values():
		numbers(op, by_op)
	serve = nic["by_op"].get("serve", {})
	served += serve.get("assign", 0)
	if serve and not serve["post_bytes"] == serve["submitted_bytes"] == serve["completed_bytes"] > 0:
		sys.exit(f"{serve}")
if served < 2:
	sys.exit(f"served {served}")' 2>"$work/members.err"
}
wait_for 10 has_members || fail "$(cat "$work/members.err")"

say "stop, which waits for a thread in a call of the agent, and fini, in order, a second SIGTERM meanwhile, with the options of the start, also when the file was read again"
kill -HUP "${pids[node-b]}"
wait_for 5 grep -q ': reloaded ' "$work/node-b.err" || fail "the file is not read again"
end node-b
[ "$status" -eq 0 ] || fail "it ended with $status"
grep -q ': stopped$' "$work/node-b.err" || fail "a second SIGTERM kept it from its end"
[ "$(grep '^upper' "$work/node-b.out" | tr '\n' ' ')" = "upper: start upper: stop upper: goodbye " ] ||
	fail "$(cat "$work/node-b.out")"

# refused_with STATUS LINE WHAT: the program ends with this status and says what is wrong.
refused_with() {
	write_agent bad "$2"
	start_agent bad
	reap bad
	[ "$status" -eq "$1" ] || fail "$2: it ended with $status"
	grep -q -- "$3" "$work/bad.err" || fail "$2: it does not say why"
}

# refused STATUS SERVICES WHAT
refused() {
	refused_with "$1" "services: [ $2 ]" "$3"
}

say "what cannot be had"
refused 2 "{ plugin: $tests/plugin_old.so }" 'bad.yaml:4:23: services.0.plugin: .*: a plugin of ABI 0'
refused 2 "{ plugin: $tests/plugin_upper.so }, { plugin: $tests/plugin_upper.so }" \
	'services.1.plugin: expected another service than "upper"'
refused 2 "{ plugin: $tests/plugin_upper.so, options: { fail: never } }" 'services.0.options: fail: expected init or start, got "never"'
refused 1 "{ plugin: $tests/plugin_upper.so, options: { fail: init } }" 'upper: Invalid argument'
# A SIGTERM while it stops after that, which the plugin sends, leaves its status.
refused 1 "{ plugin: $tests/plugin_upper.so, options: { fail: start } }" 'upper: Input/output error'
refused 2 '{ name: echo, options: { max_messages: 1GiB } }' 'services.0.options: max_messages: expected max_message'
refused 2 '{ name: echo, options: { max_message: some } }' 'services.0.options: max_message: expected a size such as 256MiB'

say "a signal to end while a service prepares itself, which one more would do after it, and one of the first release cannot hear of"
write_agent early "services: [ { plugin: $tests/plugin_upper.so, options: { wait: long } }, { plugin: $tests/plugin_first.so }, { name: bench, options: { size: 1TiB } } ]"
start_agent early
wait_for 10 grep -q '^upper: wait$' "$work/early.out" || fail "it does not prepare itself"
end early
[ "$status" -eq 0 ] || fail "it ended with $status"
grep -q 'told to end before its services are prepared$' "$work/early.err" || fail "it does not say why it ends"
! grep -q ' error \|ready' "$work/early.err" "$work/early.out" || fail "it says more: $(cat "$work/early.err")"
write_agent early "services: [ { plugin: $tests/plugin_first.so } ]"
start_agent early
wait_ready early
end early
[ "$status" -eq 0 ] || fail "with a plugin of the first release it ended with $status"

# Where somebody has set pages aside for others, the test would take them.
if [ "$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages 2>/dev/null)" = 0 ]; then
	refused_with 1 'regions: [ { name: kv, size: 4MiB, huge_pages: 1GiB } ]' 'kv of 4194304 bytes: too few huge pages: .*/hugepages-1048576kB/'
fi

say "a region in a file read again whose name a service has"
bench='services: [ { name: bench, options: { size: 64KiB } } ]'
write_agent node-c "$bench"
start_agent node-c
wait_ready node-c
write_agent node-c "$bench" 'regions: [ { name: bench, size: 64KiB } ]'
kill -HUP "${pids[node-c]}"
refusal='topology refused: regions.0.name: bench is offered already, .*: the earlier topology stays$'
wait_for 5 grep -q "$refusal" "$work/node-c.err" || fail "it does not say why the file is refused"
end node-c
! grep -q 'File exists\|: reloaded ' "$work/node-c.err" || fail "it says more: $(cat "$work/node-c.err")"
