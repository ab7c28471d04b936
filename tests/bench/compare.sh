#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench rpc --baseline, compare and plot: with programs that stand for the peers, as they may be on any machine:
# one that measures, one that is not installed, one that fails, one that takes for ever.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

write_agent node-b 'services: [ { name: echo } ]'
start_control
start_agent node-b
wait_ready node-b

# fake NAME: the program of that peer, from standard input.
mkdir "$work/programs"
fake() {
	cat >"$work/programs/baseline-$1"
	chmod +x "$work/programs/baseline-$1"
}
fake ray <<'END'
#!/bin/sh
[ "$1 $3 $4" = "--sweep --warmup 20" ] || exit 1
echo "# ray       of a test: $2"
echo "size,avg_us,p50_us,p99_us,bw_gb_s"
for part in $(echo "$2" | tr , ' '); do
	echo "${part%%:*},1000000,2000000,4000000,0.0000005"
done
END
fake pulsing <<'END'
#!/bin/sh
exit 77
END
fake zeromq <<'END'
#!/bin/sh
echo "something else"
echo "a reason" >&2
END
fake grpc <<'END'
#!/bin/sh
echo $$ >"${0%/*}/pid"
exec sleep 600
END

results=$work/results
# run STATUS NAME,...: the words are in run.out and run.err.
run() {
	local status=0

	"$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --sizes 8,1KiB --iterations 50 \
		--results "$results" --baseline "$2" --set "rpc.programs=$work/programs" "${@:3}" \
		>"$work/run.out" 2>"$work/run.err" || status=$?
	[ "$status" -eq "$1" ] || fail "$2: it ended with $status"
}

has() {
	grep -q -- "$2" "$work/run.$1" || fail "no '$2' in: $(cat "$work/run.$1")"
}

say "one that measures, and one that is not installed"
mkdir "$results"
echo stale >"$results/pulsing_rpc.csv"
run 0 ray,pulsing
has out '^ray       of a test: 8:50,1024:50$'
has out 'build     slime '
for title in average p50 p99 bandwidth; do
	has out "^$title"
done
[ "$(grep -c 'S/Ray' "$work/run.out")" -eq 4 ] || fail "not a ratio for each figure"
! grep -q 'S/Pul' "$work/run.out" || fail "a peer that is not there is in the table"
[ "$(cat "$work/run.err")" = "slime-bench: Pulsing is not installed (bench/baselines/setup.sh pulsing): left out" ] ||
	fail "it says $(cat "$work/run.err")"
[ "$(find "$results" -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ')" = "ray_rpc.csv ray_rpc.txt slime_rpc.csv slime_rpc.txt " ] ||
	fail "$(ls "$results")"

say "one whose program was not built"
mv "$work/programs/baseline-grpc" "$work/programs/kept"
run 0 grpc,ray
mv "$work/programs/kept" "$work/programs/baseline-grpc"
has err "^slime-bench: gRPC: $work/programs/baseline-grpc was not built (.* --target baseline-grpc): left out\$"
run 0 ray,pulsing

say "the same from the files"
"$bin/slime-bench" compare "$results" | cmp - "$work/run.out" || fail "compare says something else"
"$bin/slime-bench" compare "$results" --csv >"$work/merged.csv"
python3 - "$work/merged.csv" <<'END' || fail "$(cat "$work/merged.csv")"
import csv, sys
rows = list(csv.DictReader(line for line in open(sys.argv[1]) if line[0] != "#"))
assert [row["size"] for row in rows] == ["8", "1024"]
for row in rows:
    for figure in "avg_us", "p50_us", "p99_us":
        ours, theirs, ratio = (float(row[f"{who}_{figure}"]) for who in ("slime", "ray", "s_ray"))
        assert abs(ratio - theirs / ours) < 0.01 * ratio and ratio > 1
    assert float(row["s_ray_bw_gb_s"]) > 1 and float(row["ray_bw_gb_s"]) == 5e-07
    assert abs(float(row["slime_bw_gb_s"]) * float(row["slime_avg_us"]) * 1e3 / int(row["size"]) - 1) < 0.05
END

say "the files have the columns of DLSlime's benchmarks, with their meaning, from the first line on"
python3 - "$results" <<'END' || fail "$(cat "$results"/*.csv)"
import csv, sys
for system in "slime", "ray":
    rows = list(csv.DictReader(open(f"{sys.argv[1]}/{system}_rpc.csv")))
    assert list(rows[0])[:5] == "size,avg_us,p50_us,p99_us,bw_gbps".split(",") and len(rows) == 2
for row in csv.DictReader(open(f"{sys.argv[1]}/slime_rpc.csv")):
    assert abs(float(row["bw_gbps"]) * float(row["avg_us"]) * 1e3 / (2 * int(row["size"])) - 1) < 0.05
assert [row["bw_gbps"] for row in rows] == ["1e-06", "1e-06"]
END
grep -q '^host      ' "$results/slime_rpc.txt" || fail "no host: $(cat "$results/slime_rpc.txt")"
grep -q '^flags     rpc ' "$results/slime_rpc.txt" || fail "no flags: $(cat "$results/slime_rpc.txt")"
[ "$(cat "$results/ray_rpc.txt")" = "ray       of a test: 8:50,1024:50" ] || fail "$(cat "$results/ray_rpc.txt")"

say "one that fails is said, and the others are printed"
run 1 zeromq,ray
has err "^slime-bench: zeromq: it did not print figures: left out, see $results/zeromq_rpc.log"
has out 'S/Ray'
grep -q 'a reason' "$results/zeromq_rpc.log" || fail "its words are lost"

say "interrupted"
spawn interrupted "$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --sizes 8 --iterations 5 \
	--results "$results" --baseline grpc --set "rpc.programs=$work/programs"
wait_for 20 test -s "$work/programs/pid" || fail "the program was not started"
end interrupted TERM
[ "$status" -eq 143 ] || fail "it ended with $status"
[ "$(cat "$work/interrupted.err")" = "slime-bench: interrupted" ] || fail "$(cat "$work/interrupted.err")"
! kill -0 "$(cat "$work/programs/pid")" 2>/dev/null || fail "the program lives on"

say "without --baseline the figures are saved and printed"
"$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --sizes 8 --iterations 5 --results "$work/alone" >"$work/alone.out"
grep -q p99.9_us "$work/alone.out" || fail "no table: $(cat "$work/alone.out")"
[ -s "$work/alone/slime_rpc.csv" ] || fail "no file"

say "a file of DLSlime's benchmarks, which has no head"
printf 'size,avg_us,p50_us,p99_us,bw_gbps\r\n8,3,2,4,6\r\n' >"$work/alone/ray_rpc.csv"
"$bin/slime-bench" compare "$work/alone" --csv >"$work/theirs.csv" || fail "it is refused"
grep -q ',3,[0-9.]*$' "$work/theirs.csv" || fail "not one direction of it: $(cat "$work/theirs.csv")"

say "figures that cannot be saved are printed, also with --baseline"
mkdir -p "$work/blocked/slime_rpc.csv.part"
for more in '' '--baseline ray'; do
	status=0
	# shellcheck disable=SC2086 # none, or two words
	"$bin/slime-bench" rpc --ctrl "$url" --scope test --peer node-b --sizes 8 --iterations 5 --results "$work/blocked" $more \
		>"$work/blocked.out" 2>"$work/blocked.err" || status=$?
	[ "$status" -eq 1 ] || fail "it ended with $status"
	[ "$(cat "$work/blocked.err")" = "slime-bench: $work/blocked: Is a directory" ] || fail "$(cat "$work/blocked.err")"
	grep -q p99.9_us "$work/blocked.out" || fail "no table: $(cat "$work/blocked.out")"
done

# refused STATUS WHAT COMMAND...
refused() {
	local status=0

	"$bin/slime-bench" "${@:3}" >"$work/refused.out" 2>"$work/refused.err" || status=$?
	[ "$status" -eq "$1" ] || fail "${*:3}: it ended with $status"
	grep -q -- "$2" "$work/refused.err" || fail "${*:3}: it says $(cat "$work/refused.err")"
}

say "what is refused"
refused 2 'one of ray, pulsing, zeromq, grpc' rpc --peer b --results "$results" --baseline rya
refused 2 'a directory for the figures' rpc --peer b --baseline ray
refused 2 'one call in flight' rpc --peer b --results "$results" --baseline ray --inflight 2
refused 2 'one call in flight' rpc --peer b --results "$results" --baseline ray --threads 2
refused 2 'measured by --iterations' rpc --peer b --results "$results" --baseline ray --duration 1s
refused 2 'growing sizes' rpc --peer b --results "$results" --sizes 16,8
refused 2 'exclude each other' rpc --peer b --results "$results" --baseline ray --json
refused 1 'run.out: Not a directory' rpc --peer b --results "$work/run.out"
refused 2 'expected DIR' compare
refused 1 'No such file' compare "$work/nowhere"
refused 1 'no results: expected' plot "$work"
refused 2 'at least one size' rpc --peer b --sizes ''
echo 'size,avg_us' >"$results/ray_rpc.csv"
refused 1 "^$results/ray_rpc.csv:1: expected a heading" compare "$results"
refused 1 "^$results/ray_rpc.csv:1: expected a heading" plot "$results"
rm "$results/ray_rpc.csv"

say "what is drawn, by a program that stands for gnuplot"
mkdir "$work/path"
refused_plot() {
	local status=0

	PATH=$work/path "$bin/slime-bench" plot "$results" >"$work/plot.out" 2>"$work/plot.err" || status=$?
	[ "$status" -eq "$1" ] || fail "plot ended with $status"
}
refused_plot 1
grep -q '^slime-bench: gnuplot is not installed' "$work/plot.err" || fail "$(cat "$work/plot.err")"
cat >"$work/path/gnuplot" <<'END'
#!/bin/sh
while read -r line; do
	case $line in
	"set output '"*) file=${line#*\'} && echo drawn >"${file%\'}" ;;
	esac
done
END
chmod +x "$work/path/gnuplot"
refused_plot 0
[ "$(cat "$work/plot.out")" = "$results/rpc.png
$results/rpc.svg" ] || fail "$(cat "$work/plot.out")"
for file in rpc.png rpc.svg; do
	[ "$(cat "$results/$file")" = drawn ] || fail "$file is not drawn"
done

if command -v gnuplot >/dev/null; then
	say "and by gnuplot itself"
	LC_ALL=C "$bin/slime-bench" plot "$results" >"$work/plot.out" 2>"$work/plot.err" || fail "$(cat "$work/plot.err")"
	[ ! -s "$work/plot.err" ] || fail "it says $(cat "$work/plot.err")"
	grep -q "$(hostname)" "$results/rpc.svg" || fail "the picture does not say where it was measured"
	[ "$(head -c 8 "$results/rpc.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "not a PNG"
	grep -q '</svg>' "$results/rpc.svg" || fail "not an SVG"
fi
