#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nanoctrl obs and top: cli_obs.sh [CASE...]
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

case_a_redis_that_says_nothing_is_said_to() {
	give_redis
	kill -STOP "$given"
	expect 1 "given.sock: it has not answered yet" nc obs peers --redis-url "unix://$dir/given.sock" --set redis.timeout=100ms
	kill -CONT "$given"
	end_given
}

case_links_are_listed_and_waited_for() {
	local url lease
	expect 1 "no server runs" nc obs links
	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	expect 0 "[]" nc obs links --json
	expect 1 "no agent reports a link" nc obs links --wait 0.2s
	register() {
		curl -s -m 60 -X PUT "$url/v1/agents/$1?order=1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
			"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
			sed 's/.*"lease":"\([^"]*\)".*/\1/'
	}
	# report REVISION STATE [LEASE AGENT PEER]
	report() {
		curl -sf -m 60 -X PUT "$url/v1/agents/${4:-node-a}/links/${5:-node-b}/default" -H "Slime-Lease: ${3:-$lease}" \
			-H 'Content-Type: application/json' -d "{\"revision\":$1,\"state\":\"$2\"}" >/dev/null
	}
	lease=$(register node-a)
	report 1 connecting
	expect 0 "connecting" nc obs links
	expect 1 'not all links are connected. This says why one is not: nanoctrl explain node-a node-b' nc obs links --wait 0.2s
	# What it says can be typed, with the scope and the server that were asked for.
	nc obs links --wait 0.2s --scope default --address "$url" >/dev/null 2>"$dir/hint" && die "all are connected"
	# shellcheck disable=SC2046 # its words
	expect 0 "link to node-b" nc $(sed 's/.*: nanoctrl //' "$dir/hint")
	grep -q -- "--scope default --address $url$" "$dir/hint" || die "$(cat "$dir/hint")"
	nc obs links --wait 100s --json >"$dir/waited" 2>&1 &
	report 2 connected
	expect 0 "this end has not been reported" nc obs links --address "$url"
	expect 0 "node-b" nc obs links --address "${url#http://}"
	# Whoever names the server needs no directory, as in a container without a home.
	expect 0 "node-b" env -u HOME -u XDG_RUNTIME_DIR -u XDG_STATE_HOME -u NANOCTRL_RUNTIME_DIR "$program" obs links --address "$url"
	expect 2 "expected the URL of nanoctrl" nc obs links --address "there:0"
	# The end that is missing is the one to ask for.
	expect 1 'nanoctrl explain node-b node-a' nc obs links --wait 0.2s
	report 1 connected "$(register node-b)" node-b node-a
	wait $! || die "it did not see the link"
	grep -q '"agent":"node-a","peer":"node-b","profile":"default","state":"connected"' "$dir/waited"
	expect 0 "node-b" nc obs links
	expect 0 stopped nc stop
}

# give_lease NAME: as far as the command line looks for it, in the given Redis.
give_lease() {
	redis-cli -s "$dir/given.sock" hset "{default}:nanoctrl:agent:${#1}:$1" generation 1 >/dev/null
}

# write_snapshot NAME MEMBERS CONNECTION...: as an agent would, into the given Redis.
write_snapshot() {
	local now

	now=$(redis-cli -s "$dir/given.sock" time | head -1)
	redis-cli -s "$dir/given.sock" set "obs:peer:$1" \
		"{\"peer_id\":\"$1\",$2\"reported_at_ms\":${now}000,\"summary\":{},\"connections\":[$(
			IFS=,
			echo "${*:3}"
		)]}" >/dev/null
}

case_links_are_waited_for_without_a_server() {
	local there=(--redis-url "unix://$dir/given.sock" --stale-ms 3600000) ours='"interval_ms":1000,'

	give_redis
	expect 1 "no agent reports a link" nc obs links "${there[@]}" --wait 100ms
	# Of agents of others alone those are waited for.
	write_snapshot theirs "" '{"peer":"x","state":"connecting"}'
	expect 1 "not all links are connected" nc obs links "${there[@]}" --wait 100ms
	give_lease a
	give_lease b
	write_snapshot a "$ours" '{"peer":"b","state":"connected"}' '{"peer":"gone","state":"broken"}'
	expect 1 "nanoctrl explain a gone --redis-url unix://$dir/given.sock" nc obs links "${there[@]}" --wait 100ms
	# b says nothing at all: it may write no snapshots.
	write_snapshot a "$ours" '{"peer":"b","state":"connected"}'
	expect 0 "connected" nc obs links "${there[@]}" --wait 100ms
	write_snapshot b "$ours"
	expect 1 "this end has not been reported" nc obs links "${there[@]}" --wait 100ms
	write_snapshot b "$ours" '{"peer":"a","state":"connected"}' 5
	write_snapshot left "$ours\"status\":\"stopped\"," '{"peer":"a","state":"connected"}'
	expect 0 "connected" nc obs links "${there[@]}" --wait 100ms
	end_given
}

# The age of its snapshot is a column, and says nothing of its life.
case_the_lease_says_whether_an_agent_of_ours_is_alive() {
	local url lease redis=$dir/data/redis.sock where

	expect 0 started nc start "${options[@]}" --set lease.ttl=300s
	url=$(field address)
	lease=$(curl -s -m 60 -X PUT "$url/v1/agents/ours?order=1" -H 'Content-Type: application/json' -d '{"incarnation":"one",
		"owner_key":"0011223344556677889900112233445566778899001122334455667788990011"}' |
		sed 's/.*"lease":"\([^"]*\)".*/\1/')
	curl -sf -m 60 -X PUT "$url/v1/agents/ours/snapshot" -H "Slime-Lease: $lease" -H 'Content-Type: application/json' \
		-d '{"interval_ms":3600000,"summary":{}}' >/dev/null
	for where in "--address $url" "--redis-url unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis"; do
		# shellcheck disable=SC2086 # two words
		expect 0 "Peers: 1 alive, 0 stale, 0 stopped" nc obs status $where --stale-ms 0
	done
	private_redis del '{default}:nanoctrl:agent:4:ours' >/dev/null
	for where in "--address $url" "--redis-url unix://nanoctrl:$(cat "$dir/data/redis.key")@$redis"; do
		# shellcheck disable=SC2086
		expect 0 "Peers: 0 alive, 1 stale, 0 stopped" nc obs status $where --stale-ms 3600000
		# shellcheck disable=SC2086
		expect 0 "stale" nc obs peers $where --stale-ms 3600000
	done
	expect 0 stopped nc stop
}

# Counters that grow by a thousand in a second, where agents of each kind have them.
case_top_counts_the_operations_of_others() {
	local second=1
	give_redis
	write_one() {
		redis-cli -s "$dir/given.sock" set "obs:peer:$1" "{\"peer_id\":\"$1\",\"pid\":7,\"reported_at_ms\":${second}000,$2}" >/dev/null
	}
	write_all() {
		write_one ours "\"interval_ms\":9,\"summary\":{\"post_batch_total\":${second}000,\"batch_total\":0}"
		write_one theirs "\"summary\":{\"batch_total\":0},\"nics\":[{\"post_batch_total\":${second}000},{\"post_batch_total\":${second}500}]"
		write_one old "\"summary\":{\"batch_total\":${second}500}"
		write_one silent '"summary":{}'
	}
	give_lease ours
	write_all
	"$program" top --redis-url "unix://$dir/given.sock" --every 100ms </dev/null >"$dir/top" 2>&1 &
	watcher=$!
	until_says "silent" cat "$dir/top"
	second=2
	write_all
	until_says " 2000 " grep theirs "$dir/top"
	until_says " 1000 " grep old "$dir/top"
	until_says " 1000 " grep ours "$dir/top"
	! grep silent "$dir/top" | grep -vE ' - +- +0 +0 *$' || die "it counts what nobody says"
	kill "$watcher"
	wait "$watcher" || true
	watcher=
	end_given
}

case_top_on_a_terminal_ends_with_q() {
	expect 0 started nc start "${options[@]}"
	timeout 120 python3 "${SLIME_SOURCE:?}/tests/nanoctrl/commands/top_keys.py" "$program" top --every 60s >"$dir/keys" 2>&1 ||
		die "$(cat "$dir/keys")"
	expect 0 stopped nc stop
}

case_what_agents_say_is_json_again() {
	local view

	give_redis
	write_snapshot one '"ewma_bandwidth_bps":1.7e308,"nics":[{"peer_id":"zz","nic":"n","age_ms":0},{}],'
	write_snapshot two '"ewma_bandwidth_bps":1.7e308,' '{"peer":"x","ewma_bandwidth_bps":1e308,"completed_bytes_total":1}'
	for view in status nics links peers; do
		nc obs "$view" --redis-url "unix://$dir/given.sock" --stale-ms 3600000 --json >"$dir/out" || die "$view: $?"
		python3 - "$dir/out" <<'END' || die "$view: $(cat "$dir/out")"
import json, sys
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)
def refuse(word):
    raise ValueError(word)
json.load(open(sys.argv[1]), object_pairs_hook=once, parse_constant=refuse)
END
	done
	expect 0 '{"nic":"n","peer_id":"one","age_ms":' nc obs nics --redis-url "unix://$dir/given.sock" --json
	end_given
}

# In 10^9 bytes a second; the members of snapshots are bits a second, as DLSlime's agents say them.
case_rates_are_gigabytes_a_second_everywhere() {
	local from view

	give_redis
	from=(--redis-url "unix://$dir/given.sock" --stale-ms 3600000)
	write_snapshot fast '"ewma_bandwidth_bps":98000000000.0,"nics":[{"nic":"n","ewma_bandwidth_bps":98765432109.0}],' \
		'{"peer":"x","state":"connected","ewma_bandwidth_bps":1200000000,"completed_bytes_total":1}'
	write_snapshot slow '"ewma_bandwidth_bps":1500.0,'
	write_snapshot idle '"ewma_bandwidth_bps":0.001,'
	expect 0 "Estimated BW: 12.25GB/s (EWMA)" nc obs status "${from[@]}"
	expect 0 '"ewma_bandwidth_bps":98000001500.0}' nc obs status "${from[@]}" --json
	nc obs peers "${from[@]}" >"$dir/out"
	nc top --times 1 "${from[@]}" >>"$dir/out"
	[ "$(grep -E '^(fast|slow|idle) ' "$dir/out" | grep -oE '[^ ]+GB/s' | LC_ALL=C sort | uniq -c | tr -s ' \n' ' ')" = \
		" 2 0GB/s 2 12.25GB/s 2 <0.0001GB/s " ] || die "$(cat "$dir/out")"
	expect 0 " 12.35GB/s " nc obs nics "${from[@]}"
	expect 0 " 0.15GB/s " nc obs links "${from[@]}"
	expect 0 '"ewma_bandwidth_bps":1200000000.0,"bw_gb_s":0.15' nc obs links "${from[@]}" --json
	for view in status peers nics links; do
		nc obs "$view" "${from[@]}" >"$dir/out" 2>&1 || die "$view: $?"
		! grep -i '[a-z]bps' "$dir/out" || die "$view shows bits"
	done
	end_given
}

# Others' values are as long as they like: together more than one answer of Redis may have.
case_agents_are_observed_beside_large_values() {
	give_redis
	redis-cli -s "$dir/given.sock" eval "for i = 1, 90 do redis.call('SET', 'obs:peer:' .. i, string.rep('x', 3145728)) end
		for i = 1, 40 do redis.call('SET', 'obs:peer:small' .. i, '{\"peer_id\":\"small' .. i .. '\"}') end" 0 >/dev/null
	expect 0 "Peers: 0 alive, 40 stale, 0 stopped" nc obs status --redis-url "unix://$dir/given.sock"
	end_given
}

# A server of which every page has a next one.
endless_server() {
	python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
body = b"""{"status":"ok","now_ms":1,"snapshots":[],"links":[],"next":"more"}"""
while True:
	c, _ = s.accept()
	while c.recv(65536):
		c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))' >"$dir/endless" 2>/dev/null &
	given=$!
	wait_for test -s "$dir/endless"
	url=http://127.0.0.1:$(cat "$dir/endless")
}

case_a_list_without_an_end_is_none() {
	local url

	endless_server
	expect 1 "the list of snapshots has no end" nc obs peers --address "$url"
	expect 1 "the list of links has no end" nc obs links --address "$url"
	end_given
}

run_cases "$@"
