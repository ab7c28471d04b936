#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/monitoring: the alerts by their own tests, and every query of the alerts and of the dashboard by a Prometheus
# that scrapes a nanoctrl and two agents which run. A query that finds nothing is a failure.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

for tool in prometheus promtool; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done
cp "$SLIME_SOURCE"/deploy/monitoring/* "$work/"

say "alerts and their tests"
promtool check rules "$work/alerts.yaml"
promtool test rules "$work/alerts.test.yaml" || fail "an alert"
promtool check config "$work/prometheus.yaml" >/dev/null || fail "the scrape configuration"
while read -r alert; do
	grep -q "alertname.*\b$alert\b" "$work/alerts.test.yaml" || fail "no test of the alert $alert"
	grep -q "\`$alert\`" "$SLIME_SOURCE/docs/operations.md" || fail "docs/operations.md does not say what to do about $alert"
done < <(sed -n 's/.*- alert: //p' "$work/alerts.yaml")

say "two agents, and a Prometheus that scrapes all"
start_control
for name in node-a node-b; do
	write_agent $name 'metrics: { listen: "127.0.0.1:0" }' 'regions: [ { name: kv, size: 64KiB } ]' 'services: [ { name: echo }, { name: bench } ]' \
		"links: [ $([ $name = node-b ] || echo '{ to: node-b }') ]"
	start_agent $name
done
wait_ready node-a node-b
wait_link 10 node-a node-b default connected
timeout 120 "$bin/slime-bench" rpc --ctrl "$url" --scope test --from node-a --peer node-b --duration 200ms >"$work/bench.out" 2>&1 ||
	fail "slime-bench: $(cat "$work/bench.out")"
targets=$(sed -n 's/.*metrics=//p' "$work/node-a.out" "$work/node-b.out" | paste -sd,)
curl -sf "$url/metrics" | promtool check metrics || fail "the metrics of nanoctrl"
curl -sf "http://${targets%%,*}/metrics" | promtool check metrics || fail "the metrics of an agent"
sed -i "s/scrape_interval: .*/scrape_interval: 1s/; s/\"127.0.0.1:3000\"/\"${url#http://}\"/; s/\"127.0.0.1:9464\".*\"/\"${targets/,/\", \"}\"/" \
	"$work/prometheus.yaml"
take_port prometheus
spawn prometheus prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/tsdb" \
	--web.listen-address="127.0.0.1:${port_of[prometheus]}" --log.level=warn
prometheus=http://127.0.0.1:${port_of[prometheus]}
wait_for 20 curl -sf "$prometheus/-/ready" || fail "Prometheus is not ready"

say "queries"
# Those of an alert without what it is compared with; the intervals of Grafana as Prometheus has them.
python3 - "$work" >"$work/queries" <<'END'
import json, re, sys
work = sys.argv[1]
for line in open(f"{work}/alerts.yaml"):
    if match := re.match(r" *expr: (.*)", line):
        print(re.sub(r" (==|<|>) [a-z0-9_.]+$", "", match[1]))
for panel in json.load(open(f"{work}/dashboard.json"))["panels"]:
    for target in panel["targets"]:
        print(target["expr"].replace("$__rate_interval", "1m"))
END
finds() {
	curl -sfG "$prometheus/api/v1/query" --data-urlencode "query=$1" | grep -q '"metric"'
}
while read -r query; do
	case $query in
	*slime_ops_*) # operations are counted from the first on
		grep -q "^# TYPE $(grep -o 'slime_ops_[a-z_]*' <<<"$query") " <(curl -sf "http://${targets%%,*}/metrics") ||
			fail "no agent exports what is asked for: $query"
		;;
	*) wait_for 15 finds "$query" || fail "nothing is found: $query" ;;
	esac
done <"$work/queries"
echo "$(wc -l <"$work/queries") queries"
