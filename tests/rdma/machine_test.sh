#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slime-bench page drive --machine on two devices: a process and a row for each, beside perftest's ib_read_bw of the same
# devices. What is fast is not judged here.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

command -v ib_read_bw >/dev/null || skip "no ib_read_bw: deploy/packages.sh test"
pages=(--scope test --transport rdma --page-size 16KiB --working-set 64)

start_control
spawn owner "$bin/slime-bench" page serve --ctrl "$url" "${pages[@]}" --devices rxe1
wait_for 20 grep -q 'serves pages' "$work/owner.out" || fail "no owner: $(cat "$work/owner.err")"

say "a row for each device and one for all, each beside ib_read_bw"
timeout 240 "$bin/slime-bench" page drive --ctrl "$url" "${pages[@]}" --machine --devices rxe0,rxe1 --batch-size 4 \
	--concurrencies 1 --warmup 0s --duration 1s --check-all --json >"$work/machine.json" 2>"$work/machine.err" ||
	fail "$(cat "$work/machine.err")"
python3 - "$work/machine.json" <<'END' || fail "$(cat "$work/machine.json" "$work/machine.err")"
import json, sys
r = json.load(open(sys.argv[1]))
rows = r["rows"]
assert [row["note"] for row in rows] == ["rxe0", "rxe1", "all"], rows
assert r["run"]["processes"] == 2 and r["run"]["transports"] == ["rdma"], r["run"]
assert {nic["name"] for nic in r["run"]["nics"]} >= {"rxe0", "rxe1"} and r["run"]["verbs"], r["run"]
for row in rows:
    assert row["hit_percent"] == 100 and not row["wrong_pages"] and row["bw_gb_s"] > 0, row
    assert abs(row["ratio"] - row["bw_gb_s"] / row["ib_read_bw_gb_s"]) < 0.001, row
assert abs(rows[2]["ib_read_bw_gb_s"] - rows[0]["ib_read_bw_gb_s"] - rows[1]["ib_read_bw_gb_s"]) < 0.001, rows
END
python3 -c 'import json, sys; [print(r["note"], r["bw_gb_s"], r["ib_read_bw_gb_s"], r["ratio"]) for r in json.load(open(sys.argv[1]))["rows"]]' "$work/machine.json"
