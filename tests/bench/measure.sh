#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench between real agents: every operation over shm and tcp, by itself and on behalf of another agent; what it
# prints for machines; what it says when it cannot.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

bench_service='services: [ { name: echo }, { name: bench, options: { size: "4194304" } } ]'
write_agent node-a "$bench_service" 'metrics: { listen: "127.0.0.1:0" }'
write_agent node-b "$bench_service" "regions: [ { name: kv, size: 1MiB, access: [read, write] } ]"
start_control
start_agent node-a
start_agent node-b
wait_ready node-a node-b

# Nobody can reach this one where there are no devices. It is waited for, 15 s, while the rest goes on.
write_agent node-r 'data: { transports: [rdma] }' "$bench_service"
start_agent node-r
wait_ready node-r
spawn unreachable "$bin/slime-bench" rpc --ctrl "$url" --scope test --from node-r --peer node-b

bench() {
	SLIME_CTRL=$url "$bin/slime-bench" "$1" --scope test "${@:2}" >"$work/bench.out" 2>"$work/bench.err"
}

measured() {
	bench "$@" || fail "$*: $(cat "$work/bench.err")"
	[ ! -s "$work/bench.err" ] || fail "$*: it wrote to standard error: $(cat "$work/bench.err")"
}

# refused STATUS WHAT COMMAND...: one line, that says what.
refused() {
	local status=0

	bench "${@:3}" || status=$?
	[ "$status" -eq "$1" ] || fail "${*:3}: it ended with $status"
	grep -q -- "$2" "$work/bench.err" || fail "${*:3}: it says $(cat "$work/bench.err")"
	[ "$(grep -c '^slime-bench: ' "$work/bench.err")" -eq 1 ] || fail "${*:3}: not one line"
	[ ! -s "$work/bench.out" ] || fail "${*:3}: it printed a result"
}

say "a clean measurement counts no error, also with a peer that has no bench service"
write_agent node-e 'services: [ { name: echo } ]'
start_agent node-e
wait_ready node-e
measured rpc --from node-a --peer node-e --sizes 8 --iterations 5
measured rpc --from node-a --peer node-b --sizes 8 --iterations 5
page=$(curl -sf "http://$(sed -n 's/.*metrics=//p' "$work/node-a.out")/metrics")
grep -q '^slime_agent_ops_completed_total{kind="call"} ' <<<"$page" || fail "no calls: $page"
! grep '^slime_agent_ops_failed_total{' <<<"$page" | grep -qv ' 0$' || fail "errors: $page"
end node-e

small=(--block-size 4KiB --batch-size 4 --duration 100ms)
for transport in shm tcp; do
	for op in read write write_imm; do
		say "$op over $transport"
		measured transfer --peer node-b --transport "$transport" --op "$op" "${small[@]}"
		grep -q "over $transport" "$work/bench.out" || fail "another transport"
		grep -q 'verified' "$work/bench.out" || fail "not verified"
	done
	say "calls over $transport"
	measured rpc --peer node-b --transport "$transport" --sizes 8,1KiB,1MiB --iterations 5 --csv
	[ "$(grep -v '^#' "$work/bench.out" | head -n 1 | cut -d, -f1-5)" = size,avg_us,p50_us,p99_us,bw_gb_s ] ||
		fail "the columns: $(cat "$work/bench.out")"
	[ "$(grep -c '^[0-9]' "$work/bench.out")" -eq 3 ] || fail "not three rows"
done

say "between two other agents, as JSON"
measured transfer --from node-a --peer node-b --op write "${small[@]}" --json
python3 - "$work/bench.out" <<'END' || fail "JSON: $(cat "$work/bench.out")"
import json, sys
r = json.load(open(sys.argv[1]))
row = r["rows"][0]
assert r["bench"] == "transfer" and r["run"]["from"] == "node-a" and r["run"]["peer"] == "node-b"
assert row["verified"] and row["bytes"] == row["trips"] * 4 * 4096 > 0
assert abs(row["bw_gb_s"] * 1e9 * row["duration_s"] - row["bytes"]) < 1
END

say "several sizes, processes and peers at once: a row for each peer, and one for all"
measured transfer --peer node-a --peer node-b --processes 2 --block-size 4KiB,16KiB --batch-size 4 --duration 100ms --json
python3 - "$work/bench.out" <<'END' || fail "JSON: $(cat "$work/bench.out")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["run"]["processes"] == 4 and r["run"]["peer"] == "node-a, node-b" and not r["run"]["from"], r["run"]
assert [(row["peer"], row["block_size"]) for row in r["rows"]] == [
    (peer, size) for size in (4096, 16384) for peer in ("node-a", "node-b", "")]
for i in (0, 3):
    one, other, both = r["rows"][i:i + 3]
    assert both["trips"] == one["trips"] + other["trips"] and one["trips"] and other["trips"]
    assert both["latency_us"]["n"] == both["trips"] and both["verified"] and not both["impossible"]
    assert both["bytes"] == both["trips"] * 4 * both["block_size"]
    assert both["latency_us"]["max"] == max(one["latency_us"]["max"], other["latency_us"]["max"])
END
measured transfer --peer node-b --block-size 8,64KiB,1KiB --batch-size 4 --duration 50ms --op write --csv
[ "$(grep -v '^#' "$work/bench.out" | cut -d, -f3 | xargs)" = 'block_size 8 65536 1024' ] || fail "$(cat "$work/bench.out")"

say "one process that fails ends the others, and says why"
refused 1 'node-a offers no region kv' transfer --peer node-b --peer node-a --region kv "${small[@]}"

say "targets and an initiator find each other at an address, without a control plane"
take_port discovery
address=127.0.0.1:${port_of[discovery]}
for target in one two; do
	spawn "target-$target" "$bin/slime-bench" transfer target --discovery-addr "$address" --size 1MiB
done
for target in one two; do
	wait_for 15 grep -q 'is a target of transfers' "$work/target-$target.out" || fail "no target: $(cat "$work/target-$target.err")"
done
alone() {
	timeout 60 "$bin/slime-bench" transfer --discovery-addr "$address" --block-size 4KiB,8KiB --batch-size 4 --duration 100ms --json "$@" \
		>"$work/alone.json" 2>"$work/alone.err"
}
alone --targets 2 --op write || fail "$(cat "$work/alone.err")"
python3 - "$work/alone.json" <<'END' || fail "$(cat "$work/alone.json")"
import json, sys
r = json.load(open(sys.argv[1]))
assert len(r["rows"]) == 6 and all(row["verified"] and row["trips"] for row in r["rows"]), r["rows"]
END
alone && fail "one of two targets was chosen"
grep -q 'expected 1 targets, found 2' "$work/alone.err" || fail "it says $(cat "$work/alone.err")"
alone --peer "$(cut -d' ' -f1 "$work/target-one.out")" --transport tcp || fail "$(cat "$work/alone.err")"
mkdir "$work/drawn"
cp "$work/alone.json" "$work/drawn/transfer-tcp.json"
if command -v gnuplot >/dev/null; then
	"$bin/slime-bench" plot "$work/drawn" >"$work/plot.out" || fail "plot"
	[ "$(cat "$work/plot.out")" = "$work/drawn/transfer.png
$work/drawn/transfer.svg" ] || fail "it drew $(cat "$work/plot.out")"
	[ "$(head -c 8 "$work/drawn/transfer.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "not a PNG"
	grep -q 'read x 4 over tcp' "$work/drawn/transfer.svg" || fail "it does not say what was measured"
	grep -q "$(hostname)" "$work/drawn/transfer.svg" || fail "it does not say where"
fi
for target in two one; do
	end "target-$target"
	[ "$status" = 0 ] || fail "target $target ended with $status"
done
! curl -s -o /dev/null "http://$address/" || fail "its control plane is left"

say "what an agent of ours did, when it has left"
measured rpc --peer node-b --sizes 1KiB --iterations 300 --json
"$bin/nanoctrl" obs peers --address "$url" --scope test --json >"$work/peers"
python3 - "$work/bench.out" "$work/peers" <<'END' || fail "obs: $(cat "$work/peers")"
import json, sys
name = json.load(open(sys.argv[1]))["run"]["from"]
[agent] = [p for p in json.load(open(sys.argv[2])) if p["peer_id"] == name]
assert agent["status"] == "stopped" and agent["summary"]["batch_total"] >= 300 and not agent["summary"]["pending_ops"]
END
measured rpc --from node-a --peer node-b --sizes 4KiB --iterations 5 --threads 2 --inflight 3

say "bandwidth in GB/s of one direction, as a table, CSV and JSON"
measured rpc --peer node-b --sizes 64KiB --iterations 20
grep -q ' GB/s ' "$work/bench.out" || fail "the table: $(cat "$work/bench.out")"
measured rpc --peer node-b --sizes 64KiB --iterations 20 --json
python3 - "$work/bench.out" <<'END' || fail "JSON: $(cat "$work/bench.out")"
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
assert abs(row["bw_gb_s"] * row["latency_us"]["avg"] * 1e3 / row["size"] - 1) < 0.01
END
measured transfer --peer node-b "${small[@]}"
grep -q ' GB/s ' "$work/bench.out" || fail "the table: $(cat "$work/bench.out")"
measured transfer --peer node-b "${small[@]}" --csv
grep -q '^op,.*,bw_gb_s,' "$work/bench.out" || fail "the columns: $(cat "$work/bench.out")"

say "two agents that write to each other, each with one thread for handlers"
spawn there "$bin/slime-bench" transfer --ctrl "$url" --scope test --from node-a --peer node-b --op write_imm --transport tcp --block-size 4KiB \
	--batch-size 1 --qps 20 --duration 1h
wait_for 15 link_is 'node-a node-b bench-tcp connected' || fail "no link: $(cat "$work/there.err")"
measured transfer --from node-b --peer node-a --op write_imm --transport shm "${small[@]}"
grep -q 'verified' "$work/bench.out" || fail "not verified"
end there

say "no more bandwidth than calls: five of them do not fill a hundred places"
measured rpc --peer node-b --sizes 64KiB --iterations 5 --inflight 100 --json
python3 - "$work/bench.out" <<'END' || fail "JSON: $(cat "$work/bench.out")"
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
assert 0 < row["bw_gb_s"] * 1e9 <= row["size"] * row["calls"] / (row["latency_us"]["max"] / 1e6)
END

say "where the ephemeral agent listens: either end of a link may be the one that connects"
spawn bound "$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --transport tcp --tcp-bind 127.0.0.9 --duration 1h
wait_for 15 link_is 'bench-.* node-b bench-tcp connected' || fail "no link of slime-bench: $(links)"
# Of its descriptors that listen at 127.0.0.9.
listens() {
	local inode

	while read -r inode; do
		find "/proc/${pids[bound]}/fd" -lname "socket:\[$inode\]" | grep -q . && return
	done < <(awk '$2 ~ /^0900007F:/ && $4 == "0A" { print $10 }' /proc/net/tcp)
	return 1
}
listens || fail "it does not listen there: $(cat "$work/bound.err")"
end bound

say "a result that cannot be printed"
# not_printed PROGRAM ARGUMENT...
not_printed() {
	local status=0

	"$bin/$1" "${@:2}" >/dev/full 2>"$work/full.err" || status=$?
	[ "$status" -eq 1 ] || fail "$* to a full disk: it ended with $status"
	[ "$(cat "$work/full.err")" = "$1: standard output: No space left on device" ] ||
		fail "$* to a full disk: it says $(cat "$work/full.err")"
}
for format in --no-csv --csv --json; do
	not_printed slime-bench rpc --ctrl "$url" --scope test --peer node-b --sizes 8 --iterations 5 $format
	not_printed slime-bench transfer --ctrl "$url" --scope test --peer node-b "${small[@]}" $format
done
for format in --no-json --json; do
	not_printed nanoctrl obs links --address "$url" --scope test $format
done

say "a region of the peer's own"
measured transfer --peer node-b --region kv "${small[@]}"
grep -q 'not checked' "$work/bench.out" || fail "it says what it cannot know"
measured transfer --peer node-b --region kv --op write --overwrite "${small[@]}"
grep -q 'verified' "$work/bench.out" || fail "not verified"

say "more trips a second than the link can"
SLIME_CTRL=$url timeout 60 "$bin/slime-bench" transfer --scope test --peer node-b --qps 100000000 "${small[@]}" >"$work/bench.out" ||
	fail "it does not end with its time: $(cat "$work/bench.out")"

say "fewer trips a second than threads, of which the last would begin after a minute"
timeout 40 "$bin/slime-bench" transfer --ctrl "$url" --scope test --peer node-b --qps 1 --threads 64 --block-size 8 --batch-size 1 \
	--duration 100ms >"$work/bench.out" || fail "it does not end with its time: $(cat "$work/bench.out")"

say "from a file, and what is set over it"
cat >"$work/bench.yaml" <<END
version: 1
between: { scope: nowhere, peers: [node-b] }
rpc: { sizes: [8, 16], iterations: 5 }
END
SLIME_CTRL=$url "$bin/slime-bench" rpc --config "$work/bench.yaml" --set between.scope=test --csv >"$work/file.out"
[ "$(grep -c '^[0-9]' "$work/file.out")" -eq 2 ] || fail "the file is not what was measured: $(cat "$work/file.out")"

measured rpc --config "${SLIME_SOURCE:?}/configs/bench.yaml" --set 'rpc.sizes=[8]' --iterations 5
grep -q 'between   node-a and node-b' "$work/bench.out" || fail "another pair than the file says"

say "an end in order is no noise"
[ ! -s "$work/bench.err" ] || fail "slime-bench says $(cat "$work/bench.err")"
! grep 'is broken' "$work/node-a.err" "$work/node-b.err" || fail "an agent takes it for a failure"

say "--set and the file are checked before anything is started"
# refused_setting WHAT OPTION...: exit 2, and one line that says what.
refused_setting() {
	refused 2 "^slime-bench: $1" rpc --peer node-b "${@:2}"
}
refused_setting '--set: expected KEY.PATH=VALUE' --set =8
refused_setting '--set: expected KEY.PATH=VALUE' --set rpc.sizes
refused_setting '--set rpc.: expected a key' --set rpc.=8
refused_setting '--set rpc.sizez: rpc: unknown key "sizez", expected "sizes"' --set rpc.sizez=8
refused_setting '--set rpc.inflight: expected an integer' --set rpc.inflight=many
refused_setting '--set rpc.inflight: expected an integer from 1 to 4096, got "0"' --set rpc.inflight=0
refused_setting '--set rpc.sizes: expected a list' --set rpc.sizes=8
refused_setting '--set rpc: expected each key once' --set 'rpc={inflight: 1, inflight: 2}'
measured rpc --peer node-b --set 'rpc.sizes=[1MiB]' --set 'rpc.sizes=[8]' --set rpc.iterations=5 # the last one counts
status=0
echo 'between: { scope: test, scope: test }' >"$work/bench.yaml"
"$bin/slime-bench" rpc --peer node-b --config "$work/bench.yaml" 2>"$work/file.err" || status=$?
[ "$status" -eq 2 ] || fail "a key twice: it ended with $status"
grep -q "^$work/bench.yaml:1:25: " "$work/file.err" || fail "a key twice: $(cat "$work/file.err")"

say "what is refused"
refused 2 'overwrite' transfer --peer node-b --region kv --op write
refused 2 'multiples of 8' transfer --peer node-b --block-size 8,12
refused 2 'expected 1 to 64 sizes' transfer --peer node-b --block-size ''
refused 2 'each agent once' transfer --peer node-b --peer node-b
refused 2 'one --peer' rpc --peer node-a --peer node-b
refused 2 'they initiate' transfer --from node-a --peer node-b --processes 2
refused 2 'one agent at a time writes' transfer --peer node-b --op write --processes 2
refused 2 'expected target, or nothing' transfer serve
refused 2 'multiple of 4KiB' transfer target --size 5000
refused 2 'ADDRESS:PORT' transfer target --discovery-addr localhost:1
refused 2 'peer' rpc
refused 2 'exclude' rpc --peer node-b --json --csv
refused 2 'another agent than the peer' rpc --peer node-b --from node-b
refused 2 'sizez' rpc --peer node-b --sizez 8
refused 2 'a numeric address of this host' rpc --peer node-b --tcp-bind localhost
refused 2 'a numeric address of this host' rpc --peer node-b --tcp-bind ::
refused 2 'the URL of nanoctrl' rpc --peer node-b --ctrl ftp://127.0.0.1:3000
echo word >"$work/token"
chmod 644 "$work/token"
refused 1 'only its owner' rpc --peer node-b --token-file "$work/token"
refused 1 '^slime-bench: 1 x 2 x 4194304 bytes (threads, blocks of a trip, block) do not fit the region of 4194304 bytes: lower them, or raise size of its bench service (options: { size: 1GiB })' \
	transfer --peer node-b --block-size 4MiB --batch-size 2
refused 1 'do not fit the region' transfer --from node-a --peer node-b --block-size 4MiB --batch-size 2
refused 1 'needs 2048.0 GiB of memory' rpc --peer node-b --sizes 256MiB --inflight 4096
refused 1 'node-a: it needs 2048.0 GiB of memory' rpc --from node-a --peer node-b --sizes 256MiB --inflight 4096
refused 1 'node-b takes no calls of 314572800 bytes: raise max_message' rpc --peer node-b --sizes 300MiB --iterations 1
refused 1 'node-a: node-b takes no calls of' rpc --from node-a --peer node-b --sizes 300MiB --transport tcp --iterations 1
refused 1 'node-b offers no region nothing' transfer --peer node-b --region nothing
# At once: only a peer that is there and cannot be reached is waited for, 15 s.
SECONDS=0
# A slime-bench of the lines before may not have gone from the list yet.
refused 1 'nobody is not registered in scope test; there are .*node-a, node-b, node-r.*; --scope names another' rpc --peer nobody
refused 1 'nobody is not registered in scope test' rpc --from nobody --peer node-b
refused 1 'node-a: nobody is not registered in scope test' rpc --from node-a --peer nobody
[ "$SECONDS" -lt 40 ] || fail "it took $SECONDS s to say so"

say "a control plane that is not there: why"
spawn silent python3 -c '
import signal, socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()'
spawn other python3 -c '
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        self.send_error(404)
s = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(s.server_port, flush=True)
s.serve_forever()'
wait_for 10 test -s "$work/silent.out" -a -s "$work/other.out" || fail "no servers"
# All at once: each is waited for some seconds.
declare -A absent=(
	[refuses]='http://127.0.0.1:1|http://127.0.0.1:1: Connection refused'
	[unknown]='http://nobody.invalid:80|http://nobody.invalid:80: cannot resolve the name: .*'
	[mute]="http://127.0.0.1:$(cat "$work/silent.out")|.*\(no answer\|silent\).*"
	[foreign]="http://127.0.0.1:$(cat "$work/other.out")|.*404"
)
for name in "${!absent[@]}"; do
	spawn "$name" "$bin/slime-bench" rpc --ctrl "${absent[$name]%%|*}" --peer node-b
done
for name in "${!absent[@]}"; do
	reap "$name"
	[ "$status" -eq 1 ] || fail "$name: it ended with $status"
	grep -qx "slime-bench: not registered with nanoctrl: ${absent[$name]#*|}" "$work/$name.err" ||
		fail "$name: it says $(cat "$work/$name.err")"
done
end silent KILL
end other KILL

say "interrupted"
spawn interrupted "$bin/slime-bench" transfer --ctrl "$url" --scope test --peer node-b --duration 1h
wait_for 15 link_is "node-b bench-.* connected" || fail "no link of slime-bench: $(links)"
end interrupted INT
[ "$status" -eq 130 ] || fail "it ended with $status"
[ "$(cat "$work/interrupted.err")" = "slime-bench: interrupted" ] || fail "it does not say so"

no_link_is() {
	! link_is "$@"
}

runs_ended() {
	grep -c 'a run against node-b ended with its caller' "$work/node-a.err" || true
}

runs_ended_are() {
	[ "$(runs_ended)" -eq "$1" ]
}

# What another agent was asked for ends there, too, when its caller goes: in order, or not.
ended=$(runs_ended)
for signal in INT KILL; do
	say "interrupted by $signal, on behalf of another agent"
	spawn asked "$bin/slime-bench" transfer --ctrl "$url" --scope test --from node-a --peer node-b --duration 1h
	wait_for 15 link_is "node-a node-b bench-any connected" || fail "no link of node-a: $(links)"
	end asked "$signal"
	[ "$signal" = KILL ] || [ "$status" -eq 130 ] || fail "it ended with $status"
	wait_for 10 no_link_is "node-a node-b bench-any" || fail "the run goes on: $(links)"
	ended=$((ended + 1))
	wait_for 10 runs_ended_are "$ended" || fail "node-a does not say so"
	measured rpc --from node-a --peer node-b --sizes 8 --iterations 5
done

if ! compgen -G '/sys/class/infiniband/*' >/dev/null; then
	say "an agent that cannot be reached: why"
	reap unreachable
	[ "$status" -eq 1 ] || fail "it ended with $status"
	grep -q 'slime-bench: the link to node-r did not come up: .*rdma' "$work/unreachable.err" ||
		fail "it says $(cat "$work/unreachable.err")"
	[ -z "$(sort "$work/unreachable.err" | uniq -d)" ] || fail "it says something twice: $(cat "$work/unreachable.err")"
fi

say "nobody is left behind"
nobody_is_left() {
	! curl -sf "$url/v1/agents?scope=test" | grep -q '"bench-'
}
wait_for 10 nobody_is_left || fail "$(curl -s "$url/v1/agents?scope=test")"
