#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGHUP: what changed is changed, what did not goes on, and a bad file changes nothing.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# write_a LINE...: a log of its own, as a daemon whose standard error nobody reads.
write_a() {
	write_agent node-a "log: { file: $work/node-a.log }" "$@"
}

start_control

say "SIGHUP and SIGUSR1 while it still checks its file for the first time"
mkfifo "$work/gate"
write_agent node-c "services: [ { plugin: ${SLIME_BUILD:?}/tests/plugin_upper.so, options: { gate: $work/gate } } ]"
start_agent node-c
exec 7>"$work/gate" # when it is read
kill -HUP "${pids[node-c]}"
kill -USR1 "${pids[node-c]}"
echo >&7
exec 7>&-
wait_ready node-c
wait_for 10 grep -q ': reloaded ' "$work/node-c.err" || fail "it does not read the file again"
end node-c

write_a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b 'regions: [ { name: kv, size: 64KiB } ]'
start_agent node-a
start_agent node-b
wait_ready node-a node-b
wait_link 10 node-a node-b default connected

said() {
	grep -q -- "$1" "$work/node-a.log"
}

region_is() {
	grep -q "\"size\":$2" <<<"$(curl -sf "$url/v1/agents/node-b/regions/$1?scope=test")"
}

# Of a server that does not answer, nothing is known.
no_region() {
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/agents/node-b/regions/$1?scope=test")" = 404 ]
}

no_link() {
	local now

	now=$(links) && [ -n "$now" ] && ! grep -q -- "$*" <<<"$now"
}

say "another region, another link"
write_agent node-b 'regions: [ { name: kv2, size: 128KiB } ]'
write_a 'links: [ { to: node-b }, { to: node-b, profile: tcp, transports: [tcp] } ]' \
	'metrics: { listen: "127.0.0.1:0" }'
kill -HUP "${pids[node-a]}" "${pids[node-b]}"
wait_for 10 region_is kv2 131072 || fail "kv2 is not offered"
wait_for 10 no_region kv || fail "kv is still offered"
wait_link 10 node-a node-b tcp connected
[ "$(metric node-a slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link that stays was touched"

say "a bad file"
echo 'links: [' >>"$work/node-a.yaml"
kill -HUP "${pids[node-a]}"
wait_for 5 said 'reload:.*the old one stays' || fail "it does not say that the old file stays"
said "reload: $work/node-a.yaml:[0-9]*:[0-9]*: " || fail "it does not say why"
link_is node-a node-b tcp connected || fail "the bad file took a link"

say "what cannot change"
write_a 'links: [ { to: node-b } ]' 'data: { polling: busy }'
kill -HUP "${pids[node-a]}"
wait_for 5 said 'reload: data cannot change' || fail "it does not say what cannot change"
link_is node-a node-b tcp connected || fail "half of the file was taken"

say "a link taken out"
write_a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
kill -HUP "${pids[node-a]}"
wait_for 10 no_link node-a node-b tcp || fail "the link is still there"
wait_for 10 no_link node-b node-a tcp || fail "the peer still has the link"

say "labels"
write_a 'links: [ { to: node-b } ]' 'metrics: { listen: "127.0.0.1:0" }'
sed -i 's/name: node-a,/name: node-a, labels: { role: prefill },/' "$work/node-a.yaml"
kill -HUP "${pids[node-a]}"
labelled() {
	grep -q '"role":"prefill"' <<<"$(curl -sf "$url/v1/agents/node-a?scope=test")"
}
wait_for 10 labelled || fail "the label is not there"
[ "$(metric node-a slime_link_connects_total 'profile="default"')" = 1 ] || fail "the link was touched"

say "a log file that cannot be opened again, and can"
mv "$work/node-a.log" "$work/node-a.log.1"
mkdir "$work/node-a.log"
kill -USR1 "${pids[node-a]}"
wait_for 5 grep -q "log file $work/node-a.log cannot be opened again: " "$work/node-a.err" || fail "standard error does not say so"
wait_for 5 grep -q 'cannot be opened again: ' "$work/node-a.log.1" || fail "the old log does not say so"
rmdir "$work/node-a.log"
kill -USR1 "${pids[node-a]}"
wait_for 5 test -f "$work/node-a.log" || fail "it is not opened again"
