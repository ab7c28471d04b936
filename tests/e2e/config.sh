#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is wrong with a file is said with its place, nothing is started, and the exit status is 2.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# refuse WHERE WHAT FILE-TEXT: the first line of the errors begins with FILE:WHERE and has WHAT.
refuse() {
	local first status=0

	printf '%b' "$3" >"$work/bad.yaml"
	"$bin/peeragent" --config "$work/bad.yaml" >"$work/bad.out" 2>"$work/bad.err" || status=$?
	first=$(head -n 1 "$work/bad.err")
	[ "$status" -eq 2 ] || fail "exit status $status for: $3"
	[[ "$first" == "$work/bad.yaml:$1: "*"$2"* ]] || fail "expected $1 $2, got: $first"
	[ ! -s "$work/bad.out" ] || fail "it went on"
}

head='version: 1\nagent: { name: a }\ncontrol: { url: "http://127.0.0.1:1" }\n'

refuse 2:16 'expected a name' 'version: 1\nagent: { name: "a b" }\ncontrol: { url: "http://x" }\n'
refuse 2:19 'unknown key "scpe"' 'version: 1\nagent: { name: a, scpe: b }\ncontrol: { url: "http://x" }\n'
refuse 2:26 'expected a scope' 'version: 1\nagent: { name: a, scope: obs }\ncontrol: { url: "http://x" }\n'
refuse 2:27 'agent.labels: expected a label key' 'version: 1\nagent: { name: a, labels: { name: x } }\ncontrol: { url: "http://x" }\n'
refuse 1:10 'version' 'version: 2\nagent: { name: a }\ncontrol: { url: "http://x" }\n'
refuse 1:1 'name' 'version: 1\ncontrol: { url: "http://x" }\n'
refuse 3:17 'control.url: expected the URL' 'version: 1\nagent: { name: a }\ncontrol: { url: "ftp://x" }\n'
refuse 3:33 'control.urls.1: expected the URL' 'version: 1\nagent: { name: a }\ncontrol: { urls: ["http://x:1", x] }\n'
refuse 1:1 'expected the URL of nanoctrl' 'version: 1\nagent: { name: a }\n'
refuse 4:30 'expected a size' "${head}regions: [ { name: kv, size: lots } ]\n"
refuse 4:46 'regions.1.name' "${head}regions: [ { name: kv, size: 4KiB }, { name: kv, size: 4KiB } ]\n"
refuse 4:51 'read, write' "${head}regions: [ { name: kv, size: 4KiB, access: [read, exec] } ]\n"
refuse 4:44 'label=value' "${head}regions: [ { name: kv, size: 4KiB, allow: [decode] } ]\n"
refuse 4:16 'another agent' "${head}links: [ { to: a } ]\n"
refuse 4:27 'another agent or profile' "${head}links: [ { to: b }, { to: b } ]\n"
refuse 4:32 'transports' "${head}links: [ { to: b, transports: [pigeon] } ]\n"
refuse 4:13 'name or plugin' "${head}services: [ {} ]\n"
refuse 4:20 'ADDRESS:PORT' "${head}metrics: { listen: nowhere }\n"

say "a file that is not there"
status=0
"$bin/peeragent" --config "$work/none.yaml" 2>"$work/none.err" || status=$?
[ "$status" -eq 2 ] || fail "exit status $status"
grep -q "^$work/none.yaml: " "$work/none.err" || fail "got: $(cat "$work/none.err")"

say "--set is checked like the file"
printf '%b' "$head" >"$work/good.yaml"
status=0
"$bin/peeragent" --config "$work/good.yaml" --check --set links.0.to=a 2>"$work/set.err" || status=$?
[ "$status" -eq 2 ] || fail "exit status $status"
grep -q '^peeragent: --set links.0.to: ' "$work/set.err" || fail "got: $(cat "$work/set.err")"

say "--check and --print-config start nothing, and what is printed reads back to the same"
"$bin/peeragent" --config "$work/good.yaml" --check || fail "--check"
"$bin/peeragent" --config "$work/good.yaml" --set data.polling=event --print-config >"$work/printed.yaml"
grep -q 'polling: event' "$work/printed.yaml" || fail "--set is not in what is printed"
"$bin/peeragent" --config "$work/printed.yaml" --print-config | cmp - "$work/printed.yaml" || fail "it reads back differently"

say "the files of the repository are right"
for file in "${SLIME_SOURCE:?}"/configs/quickstart/*.yaml "$SLIME_SOURCE"/configs/node-*.yaml; do
	"$bin/peeragent" --config "$file" --check || fail "$file"
done
