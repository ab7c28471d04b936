#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists of many pages, of a real nanoctrl, by the command line and by the library: 700 agents, one of which has 1,500
# regions; and an agent of which a topology wants 2,500 links.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

N_AGENTS=700
N_REGIONS=1500
N_LINKS=2500

ctl() {
	"$bin/nanoctrl" "$@" --address "$url" --scope test
}

# populate: agents p0000 and so on, every second one with role=odd; the regions r0000 and so on are of p0000.
populate() {
	python3 - "$url" "$N_AGENTS" "$N_REGIONS" <<'END'
import http.client, json, sys
url, n_agents, n_regions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
server = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
def put(path, body, lease=None):
    headers = {"Content-Type": "application/json"} | ({"Slime-Lease": lease} if lease else {})
    server.request("PUT", path, json.dumps(body), headers)
    answer = server.getresponse()
    text = answer.read()
    assert answer.status in (200, 201), (path, answer.status, text)
    return json.loads(text)
for i in range(n_agents):
    lease = put(f"/v1/agents/p{i:04}?scope=test&order=1", {
        "incarnation": "one", "owner_key": "0" * 64, "address": f"10.0.0.{i % 250}",
        "labels": {"role": "odd" if i % 2 else "even"}, "services": [{"name": "echo"}],
        "attributes": {"nic.mlx5_0:1": "link=Ethernet"}})["lease"]
    for r in range(n_regions if i == 0 else 1):
        put(f"/v1/agents/p{i:04}/regions/r{r:04}?scope=test",
            {"revision": 1, "size": 4096 + r, "access": ["read", "write"][:1 + r % 2], "descriptor": "AQAA"}, lease)
END
}

# names FILE MEMBER: the distinct values of this member of a JSON array; how many.
n_distinct() {
	python3 -c 'import json, sys; rows = json.load(open(sys.argv[1])); print(len({r[sys.argv[2]] for r in rows}), len(rows))' "$@"
}

# is N COMMAND...: its second line of output.
is() {
	[ "$("${@:2}")" = "$1" ] || fail "${*:2}: $("${@:2}"), not $1"
}

# Nobody renews the leases of those agents.
lease=(--set lease.ttl=600s)
start_control
populate

say "nanoctrl get reads them to the end"
ctl get agents -o json >"$work/agents" || fail "get agents: $?"
is "$N_AGENTS $N_AGENTS" n_distinct "$work/agents" name
ctl get agents -l role=odd -o json >"$work/agents" || fail "get agents: $?"
is "$((N_AGENTS / 2)) $((N_AGENTS / 2))" n_distinct "$work/agents" name
ctl get regions -o json >"$work/regions" || fail "get regions: $?"
is "$N_REGIONS $((N_AGENTS + N_REGIONS - 1))" n_distinct "$work/regions" name
ctl get regions --agent p0000 -o json >"$work/regions" || fail "get regions: $?"
is "$N_REGIONS $N_REGIONS" n_distinct "$work/regions" name
ctl get services -o json >"$work/services" || fail "get services: $?"
is "$N_AGENTS $N_AGENTS" n_distinct "$work/services" agent

say "an agent reads them to the end"
"${SLIME_BUILD:?}/tests/peeragent-list" "$url" test "" p0000 >"$work/listed" || fail "list: $?"
[ "$(grep -c '^page' "$work/listed")" -ge 4 ] || fail "it came in $(grep -c '^page' "$work/listed") pages"
is "$N_AGENTS" grep -c '^peer p' "$work/listed"
[ "$(grep '^peer' "$work/listed" | sort -u | wc -l)" -eq "$N_AGENTS" ] || fail "an agent came twice"
grep -qx 'peer p0007 10.0.0.7 role=odd echo nic.mlx5_0:1: link=Ethernet' "$work/listed" || fail "$(grep p0007 "$work/listed")"
is "$N_REGIONS" grep -c '^region r' "$work/listed"
grep -qx 'region r0001 4097 3 [1-9][0-9]*' "$work/listed" || fail "$(grep r0001 "$work/listed")"
grep -qx 'region r0002 4098 1 [1-9][0-9]*' "$work/listed" || fail "$(grep r0002 "$work/listed")"
"$SLIME_BUILD/tests/peeragent-list" "$url" test role=even p0001 >"$work/listed" || fail "list: $?"
is "$((N_AGENTS / 2))" grep -c '^peer p' "$work/listed"
is 1 grep -c '^region' "$work/listed"

say "an agent reads all links that a topology wants of it"
{
	printf 'version: 1\nname: many\nlinks:\n  - pairs:\n'
	for ((i = 0; i < N_LINKS; i++)); do
		printf '      - [hub, leaf-%04d]\n' "$i"
	done
} >"$work/many.yaml"
ctl apply -f "$work/many.yaml" >"$work/applied" || fail "apply: $(cat "$work/applied")"
write_agent hub 'metrics: { listen: "127.0.0.1:0" }'
start_agent hub
wait_ready hub
wants() {
	[ "$(metric hub slime_agent_links connecting)" = "$1" ]
}
wait_for 20 wants "$N_LINKS" || fail "it wants $(metric hub slime_agent_links connecting)"
# Each page is one request; the second reading is after the next event.
pages_read() {
	server_metric 'nanoctrl_http_requests_total{method="GET",route="\/v1\/agents\/{name}\/wanted",status="200"}'
}
[ "$(pages_read)" -ge 3 ] || fail "it was read in $(pages_read) pages"
sed -i '$d' "$work/many.yaml"
ctl apply -f "$work/many.yaml" --prune >"$work/applied" || fail "apply: $(cat "$work/applied")"
wait_for 20 wants "$((N_LINKS - 1))" || fail "it wants $(metric hub slime_agent_links connecting)"
end hub
[ "$status" -eq 0 ] || fail "hub ended with $status"
