#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pages between real agents: two owners, readers that check what they get, tenants, an owner that is killed.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

owner() {
	write_agent "$1" "services: [ { name: pages, options: { size: 32MiB, classes: 64KiB, tenant.team: 16MiB, allow.team: name=nobody } } ]" \
		'metrics: { listen: "127.0.0.1:0" }'
	start_agent "$1"
	wait_ready "$1"
}

drive() {
	timeout 60 "$bin/slime-bench" page drive --ctrl "$url" --scope test --page-size 64KiB --working-set 128 \
		--batch-size 16 --concurrencies 2 --warmup 0s --check-all --json "$@"
}

figure() {
	python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][0][sys.argv[1]])' "$1"
}

say "bad options are refused with their place"
write_agent bad "services: [ { name: pages, options: { size: 32MiB, classes: \"64KiB,4KiB\" } } ]"
"$bin/peeragent" --config "$work/bad.yaml" --check 2>"$work/bad.err" && fail "classes that descend were accepted"
grep -q 'bad.yaml:.*ascending' "$work/bad.err" || fail "$(cat "$work/bad.err")"

start_control
owner node-a
owner node-b

say "what was put is read from both owners"
drive --owners 2 --duration 1s >"$work/both.json" || fail "two owners"
[ "$(figure hit_percent <"$work/both.json")" = 100.0 ] || fail "$(cat "$work/both.json")"
[ "$(figure wrong_pages <"$work/both.json")" = 0 ] || fail "wrong pages"

# explained STATUS ARGUMENT...
explained() {
	local status=0

	timeout 60 "$bin/slime" pages --ctrl "$url" --scope test --timeout 3s "${@:2}" >"$work/explained" 2>"$work/explained.err" || status=$?
	[ "$status" -eq "$1" ] || fail "slime pages ${*:2}: it ended with $status: $(cat "$work/explained" "$work/explained.err")"
}

say "a store is explained: owners, capacity, who has a key, and why a get of it misses"
explained 0
grep -q '^Tenant default, scope test, owners: 2$' "$work/explained" || fail "$(cat "$work/explained")"
[ "$(grep -cE '^node-[ab] +shm +30\.0 +[1-9]' "$work/explained")" = 2 ] || fail "$(cat "$work/explained")"
explained 0 bench/mla/65536/5
grep -qE '^A get of it hits: node-[ab] has it\.$' "$work/explained" || fail "$(cat "$work/explained")"
[ "$(grep -cE '^node-[ab] .* (yes|no) *$' "$work/explained")" = 2 ] || fail "$(cat "$work/explained")"
grep -qE '^node-[ab] .* yes *$' <(sed -n '/^node-/{p;q}' "$work/explained") || fail "its owner is not the first: $(cat "$work/explained")"
explained 1 bench/mla/65536/999999
grep -q '^A get of it misses: no owner has it. It was not put, or was deleted, or its owner ended; nothing was evicted.$' "$work/explained" ||
	fail "$(cat "$work/explained")"
explained 1 --tenant team
[ "$(grep -c '^node-[ab]: it does not let this agent use the tenant$' "$work/explained")" = 2 ] || fail "$(cat "$work/explained")"
grep -q '^No owner can be reached: each get misses, and each put fails.$' "$work/explained" || fail "$(cat "$work/explained")"
explained 1 --tenant nothing
grep -q '^node-a: it has no such tenant$' "$work/explained" || fail "$(cat "$work/explained")"

say "an owner's figures stand in its metrics"
curl -sf "http://$(sed -n 's/.*metrics=//p' "$work/node-a.out")/metrics" >"$work/metrics"
grep -q '^slime_agent_info{agent="node-a",scope="test",version="[0-9.]*",commit="[0-9a-z-]*"} 1$' "$work/metrics" || fail "no version"
curl -sf "$url/metrics" >"$work/nanoctrl.metrics"
grep -q '^nanoctrl_build_info{version="[0-9.]*",commit="[0-9a-z-]*"} 1$' "$work/nanoctrl.metrics" || fail "no version of nanoctrl"
grep -q '^slime_pages_put_total{tenant="default"} [1-9]' "$work/metrics" || fail "$(cat "$work/metrics")"
[ "$(grep -c '^# TYPE slime_pages_put_total counter' "$work/metrics")" = 1 ] || fail "$(cat "$work/metrics")"
[ "$(grep -c '^slime_pages_pages{' "$work/metrics")" = 2 ] || fail "$(cat "$work/metrics")"

say "over tcp, with puts beside the reads"
drive --owners 2 --duration 1s --op mixed --transport tcp >"$work/tcp.json" || fail "tcp"
[ "$(figure wrong_pages <"$work/tcp.json")" = 0 ] || fail "wrong pages over tcp"

say "two processes measure together"
drive --owners 2 --duration 300ms --processes 2 --max-channels 2 >"$work/crew.json" || fail "two processes"
python3 - "$work/crew.json" <<'END' || fail "$(cat "$work/crew.json")"
import json, sys
result = json.load(open(sys.argv[1]))
(row,) = result["rows"]
assert result["run"]["processes"] == 2 and row["threads"] == 4 and row["hit_percent"] == 100, row
assert not row["impossible"] and not row["wrong_pages"], row
END

say "readers wait for each other"
timeout 5 "$bin/slime-bench" page drive --ctrl "$url" --scope test --page-size 64KiB --working-set 128 --owners 2 --duration 100ms \
	--warmup 0s --concurrencies 1 --readers 2 >"$work/early.out" 2>&1 && fail "one of two readers measured"
drive --owners 2 --duration 100ms --processes 2 --readers 2 >/dev/null || fail "two readers"

say "reading into memory of a GPU names what it needs"
"$bin/slime-bench" page drive --ctrl "$url" --scope test --gpu 2>"$work/gpu.err" && fail "--gpu was accepted"
grep -q 'needs an RDMA device and a GPU that it reaches' "$work/gpu.err" || fail "$(cat "$work/gpu.err")"

say "results are drawn"
mkdir "$work/plots"
cp "$work/crew.json" "$work/plots/page-64k.json"
if command -v gnuplot >/dev/null; then
	"$bin/slime-bench" plot "$work/plots" >/dev/null || fail "plot"
	[ "$(head -c 8 "$work/plots/page.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "not a PNG"
	grep -q 'get 64 KiB x 16 over shm' "$work/plots/page.svg" || fail "it does not say what was measured"
fi
echo '{}' >"$work/plots/page-other.json"
"$bin/slime-bench" plot "$work/plots" >/dev/null 2>"$work/plot.err" && fail "a file of another kind is drawn"
grep -q 'page-other.json: expected what page --json prints' "$work/plot.err" || fail "$(cat "$work/plot.err")"

say "without an RDMA device there is no machine to measure"
if [ ! -d /sys/class/infiniband ]; then
	drive --machine >/dev/null 2>"$work/machine.err" && fail "it measures without a device"
	grep -q -- '--machine: .*RDMA' "$work/machine.err" || fail "$(cat "$work/machine.err")"
fi

say "without a control plane, by an address alone"
take_port discovery
address=127.0.0.1:${port_of[discovery]}
spawn serve "$bin/slime-bench" page serve --discovery-addr "$address" --page-size 64KiB --working-set 64
wait_for 15 grep -q serves "$work/serve.out" || fail "it does not serve"
timeout 60 "$bin/slime-bench" page drive --discovery-addr "$address" --page-size 64KiB --working-set 64 --duration 200ms \
	--warmup 0s --concurrencies 1 --json >"$work/alone.json" || fail "it is not found at its address"
[ "$(figure hit_percent <"$work/alone.json")" = 100.0 ] || fail "$(cat "$work/alone.json")"
end serve
[ "$status" = 0 ] || fail "serve ended with $status"
! curl -s -o /dev/null "http://$address/" || fail "its control plane is left"

say "its control plane ends with it, also when it is killed"
spawn serve env TMPDIR="$work" "$bin/slime-bench" page serve --discovery-addr "$address" --page-size 64KiB --working-set 64
wait_for 15 grep -q serves "$work/serve.out" || fail "it does not serve"
has_redis() { pgrep -f "redis-server.*$work/slime-discovery" >/dev/null; }
has_no_redis() { ! has_redis; }
has_redis || fail "it has no private Redis"
end serve KILL
wait_for 10 has_no_redis || fail "its private Redis is left"

say "a tenant is closed to agents that it does not allow"
drive --tenant team --duration 100ms >/dev/null 2>"$work/team.err" && fail "a stranger used the tenant"
grep -q 'not open to this agent' "$work/team.err" || fail "$(cat "$work/team.err")"

say "writers that are killed while owners pull leave nothing wrong and nothing taken"
metric_of() {
	curl -sf "http://$(sed -n 's/.*metrics=//p' "$work/$1.out")/metrics" | sed -n "s/^$2{tenant=\"default\"} //p"
}
metric_is() { [ "$(metric_of "$1" "$2")" = "$3" ]; }
for round in 1 2 3; do
	spawn "writer-$round" "$bin/slime-bench" page drive --ctrl "$url" --scope test --page-size 64KiB --working-set 128 --owners 2 \
		--batch-size 64 --concurrencies 4 --warmup 0s --duration 1h --op put --transport tcp
	writes() { link_is node-a bench && link_is node-b bench; }
	wait_for 10 writes || fail "the writer has no link: $(cat "$work/writer-$round.err")"
	end "writer-$round" KILL
done
drive --owners 2 --duration 500ms >"$work/after.json" || fail "after writers were killed"
[ "$(figure wrong_pages <"$work/after.json")" = 0 ] || fail "wrong pages after writers were killed"
for owner in node-a node-b; do
	wait_for 10 metric_is "$owner" slime_pages_filling 0 || fail "pages of a dead writer stay taken at $owner"
done

say "reads go on while nanoctrl is away for longer than a lease"
found=$(metric_of node-a slime_pages_found_total)
spawn reader "$bin/slime-bench" page drive --ctrl "$url" --scope test --page-size 64KiB --working-set 128 --owners 2 \
	--batch-size 16 --concurrencies 2 --warmup 0s --duration 8s --check-all --json
reads_from() { [ "$(metric_of "$1" slime_pages_found_total)" -gt "$found" ]; }
wait_for 10 reads_from node-a || fail "it does not read"
end nanoctrl KILL
reap reader
[ "$status" = 0 ] || fail "readers without nanoctrl: $(cat "$work/reader.err")"
[ "$(figure hit_percent <"$work/reader.out")" = 100.0 ] || fail "$(cat "$work/reader.out")"
[ "$(figure wrong_pages <"$work/reader.out")" = 0 ] || fail "wrong pages without nanoctrl"
start_nanoctrl
owners_are_there() { [ "$(curl -sf "$url/v1/agents?scope=test" | grep -o '"node-[ab]"' | sort -u | wc -l)" = 2 ]; }
wait_for 15 owners_are_there || fail "the owners do not come back"

say "a killed owner's pages are misses, and nothing is wrong"
found=$(metric_of node-b slime_pages_found_total)
spawn reader "$bin/slime-bench" page drive --ctrl "$url" --scope test --page-size 64KiB --working-set 128 --owners 2 \
	--batch-size 16 --concurrencies 2 --warmup 0s --duration 4s --op mixed --check-all --json
wait_for 10 reads_from node-b || fail "it does not read"
end node-b KILL
reap reader
[ "$status" = 0 ] || fail "readers beside a killed owner"
[ "$(figure wrong_pages <"$work/reader.out")" = 0 ] || fail "wrong pages beside a killed owner"

say "owners end in order"
end node-a
[ "$status" = 0 ] || fail "node-a ended with $status"
