#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench ctrl: what it measures and prints, that its agents are gone afterwards, also when it is interrupted, and
# what it says when it cannot.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

start_control

ctrl() {
	SLIME_CTRL=$url "$bin/slime-bench" ctrl --scope test "$@" >"$work/ctrl.out" 2>"$work/ctrl.err"
}

measured() {
	ctrl "$@" || fail "$*: $(cat "$work/ctrl.err")"
	[ ! -s "$work/ctrl.err" ] || fail "$*: it wrote to standard error: $(cat "$work/ctrl.err")"
}

# refused STATUS WHAT OPTION...: one line, that says what.
refused() {
	local status=0

	ctrl "${@:3}" || status=$?
	[ "$status" -eq "$1" ] || fail "${*:3}: it ended with $status"
	grep -q -- "^slime-bench: .*$2" "$work/ctrl.err" || fail "${*:3}: it says $(cat "$work/ctrl.err")"
	[ ! -s "$work/ctrl.out" ] || fail "${*:3}: it printed a result"
}

# served METHOD ROUTE: how often, by the metrics at hand.
served() {
	awk -v m="method=\"$1\",route=\"$2\"," '/^nanoctrl_http_requests_total/ && index($0, m) { n += $NF } END { print n + 0 }' \
		"$work/metrics"
}

nobody_is_left() {
	! curl -sf "$url/v1/agents?scope=test" | grep -q '"bench-'
}

say "all of it, as JSON"
measured --agents 6 --kill 2 --duration 1s --json
python3 - "$work/ctrl.out" <<'END' || fail "JSON: $(cat "$work/ctrl.out")"
import json, sys
r = json.load(open(sys.argv[1]))
rows = {row["op"]: row for row in r["rows"]}
assert r["bench"] == "ctrl" and r["run"]["agents"] == 6 and r["run"]["rate"] == 0
assert list(rows) == ["register", "heartbeat", "lookup", "rendezvous", "event", "crash"]
assert rows["rendezvous"]["count"] == 6 * 5 / 2 and rows["event"]["count"] == 6 * 5
assert rows["crash"]["count"] == 2 * 4
# The grace of a lost session is 1 s here.
assert rows["crash"]["latency_ms"]["min"] > 500
for row in rows.values():
    l = row["latency_ms"]
    assert row["count"] > 0 and row["per_s"] > 0 and row["total_s"] > 0
    assert 0 < l["min"] <= l["p50"] <= l["p99"] <= l["p999"] <= l["max"] and l["min"] <= l["avg"] <= l["max"]
END
wait_for 10 nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"

say "agents that crash with regions and links"
measured --agents 4 --kill 2 --ops crash --regions 3 --links 2 --json
python3 - "$work/ctrl.out" <<'END' || fail "JSON: $(cat "$work/ctrl.out")"
import json, sys
(row,) = json.load(open(sys.argv[1]))["rows"]
assert row["op"] == "crash" and row["count"] == 2 * 2
END
wait_for 10 nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"
curl -sf "$url/metrics" >"$work/metrics"
[ "$(served PUT '/v1/agents/{name}/regions/{region}')" = 6 ] || fail "regions: $(grep /regions/ "$work/metrics")"

say "a mesh that a topology wants"
measured --agents 5 --ops topology --csv
python3 - "$work/ctrl.out" <<'END' || fail "CSV: $(cat "$work/ctrl.out")"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if line[0] != "#"))
assert [(row["op"], int(row["count"])) for row in rows] == [("topology", 5), ("rendezvous", 10), ("event", 20)]
END

say "a rendezvous of one pair at a time"
measured --agents 5 --ops rendezvous --inflight 1 --csv
python3 - "$work/ctrl.out" <<'END' || fail "CSV: $(cat "$work/ctrl.out")"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if line[0] != "#"))
assert [(row["op"], int(row["count"])) for row in rows] == [("rendezvous", 10), ("event", 20)]
END

say "tables, and what was asked for"
measured --agents 2 --ops lookup,register --duration 200ms
[ "$(sed -n '/^op /,$p' "$work/ctrl.out" | sed 1,2d | cut -d ' ' -f 1 | tr '\n' ' ')" = "register lookup " ] ||
	fail "other rows: $(cat "$work/ctrl.out")"
grep -q 'closed loop' "$work/ctrl.out" || fail "which loop: $(cat "$work/ctrl.out")"
nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"

say "sessions that are held"
measured --agents 4 --ops hold --duration 300ms --csv
python3 - "$work/ctrl.out" <<'END' || fail "CSV: $(cat "$work/ctrl.out")"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if line[0] != "#"))
assert [(row["op"], int(row["count"])) for row in rows] == [("hold", 4)] and float(rows[0]["total_s"]) >= 0.3
END
nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"

say "an open loop begins no more than it was asked to"
measured --agents 4 --ops heartbeat --rate 50 --duration 1s --csv
python3 - "$work/ctrl.out" <<'END' || fail "CSV: $(cat "$work/ctrl.out")"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if line[0] != "#"))
assert [row["op"] for row in rows] == ["heartbeat"] and 1 <= int(rows[0]["count"]) <= 51
END

say "leases are kept where the calls alone would not"
measured --agents 4 --ops lookup --rate 1 --duration 4s

say "bytes of the command line that are no text"
cp "${SLIME_SOURCE:?}/configs/bench.yaml" "$work/odd"$'\xff\n'.yaml
measured --config "$work/odd"$'\xff\n'.yaml --set 'control.urls=["'"$url"'"]' --ops register --duration 100ms --json
grep -q 'odd??.yaml' "$work/ctrl.out" || fail "its flags are others: $(cat "$work/ctrl.out")"

say "from a file"
measured --config "$SLIME_SOURCE/configs/bench.yaml" --set 'control.urls=["'"$url"'"]' --set 'ctrl.ops=[register]' \
	--set ctrl.duration=100ms
grep -q '^register' "$work/ctrl.out" || fail "not what the file says: $(cat "$work/ctrl.out")"

say "two with the same process number, as in containers of one host"
alone=(unshare --pid --fork --kill-child)
"${alone[@]}" true 2>/dev/null || alone=(unshare --user --map-root-user --pid --fork --kill-child)
if "${alone[@]}" true 2>/dev/null; then
	there_are() {
		[ "$(curl -sf "$url/v1/agents?scope=test" | grep -o '"name":"bench-' | wc -l)" -eq "$1" ]
	}
	for name in one two; do
		spawn "$name" "${alone[@]}" "$bin/slime-bench" ctrl --ctrl "$url" --scope test --ops hold --agents 2 \
			--duration 1h
	done
	wait_for 15 there_are 4 || fail "they are not both there: $(curl -s "$url/v1/agents?scope=test")"
	end one KILL
	end two KILL
	wait_for 15 nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"
else
	echo "[  SKIPPED ] two_with_the_same_process_number"
fi

say "beside another server"
# Agents of these routes are told where Redis is by TCP, and it has to be there.
take_port told
redis-cli -s "$work/redis.sock" config set bind 127.0.0.1 >/dev/null
redis-cli -s "$work/redis.sock" config set port "${port_of[told]}" >/dev/null
spawn beside "$bin/nanoctrl" server --port 0 --runtime-dir "$work/beside" --redis-url "unix://$work/redis.sock" \
	--set redis.advertise="127.0.0.1:${port_of[told]}"
wait_for 15 grep -q 'serves at' "$work/beside.out" || fail "the other one does not serve"
beside=$(sed -n 's/.*serves at //p' "$work/beside.out")
wait_for 15 curl -sf "$beside/readyz" || fail "the other one is not ready"
measured --ctrl "$beside" --baseline "$beside" --agents 3 --duration 200ms --json
end beside
python3 - "$work/ctrl.out" <<'END' || fail "JSON: $(cat "$work/ctrl.out")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["bench"] == "ctrl-baseline" and r["run"]["connections"] == 3 and r["run"]["baseline"] == r["run"]["server"]
assert [row["route"] for row in r["rows"]] == ["register", "heartbeat", "lookup", "list", "query"]
for row in r["rows"]:
    assert row["per_s"] > 0 and row["baseline_per_s"] > 0 and 0 < row["low"] <= row["ratio"] <= row["high"]
END
left=$(redis-cli -s "$work/redis.sock" keys '*:bench-*')
[ -z "$left" ] || fail "left in Redis: $left"

say "what is refused"
refused 2 'at most 512 agents with a baseline' --baseline "$url" --agents 513
refused 1 'http://127.0.0.1:1: Connection refused' --baseline http://127.0.0.1:1 --duration 10ms
refused 2 'expected fewer than there are agents' --agents 4 --kill 4
refused 2 '--links: expected fewer than there are agents' --agents 4 --links 4
refused 2 'at most 256 agents for a rendezvous' --agents 257
refused 2 'register, heartbeat' --ops registre
refused 2 'expected at least one' --set 'ctrl.ops=[]'
refused 2 'unknown option --peer' --peer node-b
echo word >"$work/token"
chmod 644 "$work/token"
refused 1 'only its owner' --token-file "$work/token"
spawn nowhere "$bin/slime-bench" ctrl --ctrl http://127.0.0.1:1 # it takes some seconds to give up
for format in --no-csv --csv --json; do
	status=0
	SLIME_CTRL=$url "$bin/slime-bench" ctrl --scope test --ops register --duration 1ms $format >/dev/full 2>"$work/full.err" ||
		status=$?
	[ "$status" -eq 1 ] || fail "$format to a full disk: it ended with $status"
	[ "$(cat "$work/full.err")" = "slime-bench: standard output: No space left on device" ] ||
		fail "$format to a full disk: it says $(cat "$work/full.err")"
done

somebody_is_there() {
	! nobody_is_left
}

for signal in INT:130 TERM:143; do
	for op in register lookup; do
		say "${signal%:*} during $op"
		spawn interrupted env --default-signal=INT "$bin/slime-bench" ctrl --ctrl "$url" --scope test --ops $op --duration 1h
		wait_for 15 somebody_is_there || fail "nobody registers: $(cat "$work/interrupted.err")"
		end interrupted "${signal%:*}"
		[ "$status" -eq "${signal#*:}" ] || fail "it ended with $status"
		[ "$(cat "$work/interrupted.err")" = "slime-bench: interrupted" ] || fail "it says $(cat "$work/interrupted.err")"
		nobody_is_left || fail "left: $(curl -s "$url/v1/agents?scope=test")"
	done
done

say "INT during a round beside another server"
registrations() {
	curl -sf "$url/metrics" | sed -n 's/^nanoctrl_http_request_duration_seconds_count{.*"\/register".*} //p'
}
# handled N: more registrations than these, as only its rounds make.
handled() {
	[ "$(registrations)" -gt "$1" ]
}
before=$(registrations)
spawn interrupted env --default-signal=INT "$bin/slime-bench" ctrl --ctrl "$url" --baseline "$url" --duration 1h
wait_for 15 handled $((before + 10000)) || fail "it makes no calls: $(cat "$work/interrupted.err")"
begin=$SECONDS
end interrupted INT
[ "$status" -eq 130 ] || fail "it ended with $status"
[ $((SECONDS - begin)) -lt 60 ] || fail "it took $((SECONDS - begin)) s to end"
[ "$(cat "$work/interrupted.err")" = "slime-bench: interrupted" ] || fail "it says $(cat "$work/interrupted.err")"

say "nanoctrl that is not there"
reap nowhere
[ "$status" -eq 1 ] || fail "it ended with $status"
[[ $(cat "$work/nowhere.err") == "slime-bench: registration of bench-"*": http://127.0.0.1:1: Connection refused" ]] ||
	fail "it says $(cat "$work/nowhere.err")"

say "nanoctrl killed during a measurement"
spawn orphan "$bin/slime-bench" ctrl --ctrl "$url" --scope test --ops heartbeat --duration 1h
wait_for 15 somebody_is_there || fail "nobody registers"
end nanoctrl KILL
begin=$SECONDS
reap orphan
[ "$status" -eq 1 ] || fail "it ended with $status"
[ $((SECONDS - begin)) -lt 120 ] || fail "it took $((SECONDS - begin)) s to end"
grep -q '^slime-bench: heartbeat of bench-' "$work/orphan.err" || fail "it says $(cat "$work/orphan.err")"
