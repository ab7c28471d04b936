#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs of slime-bench rpc --baseline and the peers of bench/targets, as far as this build has them: the figures
# they print, and what they say when their library is not there.
set -euo pipefail

programs=${SLIME_BUILD:?}/baselines
source=${SLIME_SOURCE:?}/bench/baselines
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	exit 1
}

# absent NAME PROGRAM ARGUMENT...: without its environment it says so, and measures nothing.
absent() {
	local status=0

	SLIME_BASELINES=$work/none "${@:2}" >"$work/out" 2>"$work/err" </dev/null || status=$?
	[ "$status" -eq 77 ] || fail "$1 without its environment ended with $status"
	grep -q "^$1: .*bench/baselines/setup.sh$" "$work/err" || fail "$1 says $(cat "$work/err")"
	[ "$(wc -l <"$work/err")" -eq 1 ] || fail "$1: not one line"
	[ ! -s "$work/out" ] || fail "$1 printed figures"
}

for name in baseline-ray baseline-pulsing; do
	absent $name "$programs/$name" --sweep 8:1
done
for name in ray-echo mooncake nixl peercache mooncake-store; do
	absent $name "$source/$name" --step
done

absent control "$source/control" original --step
absent slimerpc "$source/slimerpc" --device rxe0 --server-device rxe1 --step

# What baseline-ray and baseline-pulsing print is by one module.
python3 -B - "$source" >"$work/out" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import sweep
sweep.print_head("a test")
sweep.print_row(1000, [1000 * i for i in range(1000, 0, -1)])
sweep.print_row(1000, [1000 * i for i in range(1, 51)])
END
[ "$(cat "$work/out")" = "# a test
size,avg_us,p50_us,p99_us,bw_gb_s
1000,500.50,500.00,990.00,0.001998
1000,25.50,25.00,50.00,0.03922" ] || fail "$(cat "$work/out")"

# perftest's tools take messages for each queue pair, and print them for all: 8 of 64 KiB at 8 Gb/s.
mkdir "$work/tools"
cat >"$work/tools/ib_read_bw" <<'END'
#!/usr/bin/env python3
import socket, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
port = int(options["-p"])
if sys.argv[-1] != "127.0.0.1":
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(30)
        server.accept()[0].close()
    sys.exit(0)
socket.create_connection(("127.0.0.1", port)).close()
print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
print(f" {options['-s']}      {int(options['-n']) * int(options['-q'])}             9.00               8.00      0.0150")
with open(sys.argv[0] + ".asked", "a") as f:
    f.write(f"{options['-n']} over {options['-q']}\n")
END
chmod +x "$work/tools/ib_read_bw"
printf '\n' | PATH=$work/tools:$PATH "$source/perftest" ib_read_bw --depth 16 --qps 8 --device a --server-device b --step >"$work/out"
[ "$(cat "$work/out")" = '{"gb_s": 1.0}' ] || fail "perftest: $(cat "$work/out")"
[ "$(tail -1 "$work/tools/ib_read_bw.asked")" = "1907 over 8" ] || fail "a second is $(cat "$work/tools/ib_read_bw.asked")"

for name in zeromq grpc; do
	[ -x "$programs/baseline-$name" ] || continue
	"$programs/baseline-$name" --sweep 1:20,65536:20 --warmup 2 >"$work/out"
	[ "$(sed '1d; s/,.*//' "$work/out" | tr '\n' ' ')" = "size 1 65536 " ] || fail "$name: $(cat "$work/out")"
	grep -q "^# $name" "$work/out" || fail "$name says no version"
	awk -F, '/^[0-9]/ && ($5 * $2 * 1e3 / $1 < 0.9 || $5 * $2 * 1e3 / $1 > 1.1) { exit 1 }' "$work/out" ||
		fail "$name counts another bandwidth than that of one direction: $(cat "$work/out")"
	! "$programs/baseline-$name" --sweep 12 2>"$work/err" || fail "$name takes anything"
done
