#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts, each with a replica of nanoctrl and an agent, from the packages of the commit before: upgraded to the
# packages of this commit one by one under load, and rolled back; then their Redis moves. The steps are those of
# docs/operations.md. Nothing is lost: no acknowledged write, no registration, no link between agents that do not restart, and
# no measurement between them fails.
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

nodes=(node-1 node-2 node-3)
urls=(http://10.88.0.2:3000 http://10.88.0.3:3000 http://10.88.0.4:3000)
url=${urls[0]}
[ -d "$debs/before" ] || fail "there are no packages of another version in $debs/before"

redis() { # NAME PORT OPTION...
	mkdir "$work/$1"
	spawn "$1" redis-server --bind 10.88.0.1 --port "$2" --protected-mode no --dir "$work/$1" --save '' --appendonly yes \
		--appendfsync always --maxmemory-policy noeviction "${@:3}"
	wait_for 10 redis-cli -h 10.88.0.1 -p "$2" ping || fail "$1 does not answer"
}

configure() { # NODE ROOT
	local number=$((${1#node-} + 1))

	mkdir -p "$2/etc/slime"
	printf '%s\n' 'version: 1' "server: { host: 10.88.0.$number, insecure: true }" 'redis: { url: "redis://10.88.0.1:6379" }' \
		'lease: { ttl: 6s, beat: 2s }' >"$2/etc/slime/nanoctrl.yaml"
	printf '%s\n' 'version: 1' "agent: { name: $1, scope: test, labels: { role: node } }" \
		"control: { urls: [\"${urls[0]}\", \"${urls[1]}\", \"${urls[2]}\"] }" "data: { tcp: { bind: 10.88.0.$number } }" \
		'regions: [{ name: kv, size: 1MiB, access: [read, write] }]' 'services: [{ name: echo }, { name: bench }]' \
		"metrics: { listen: \"10.88.0.$number:9464\" }" >"$2/etc/slime/peeragent.yaml"
}

# install NODE VERSION PACKAGE...: as the page says it.
install_on() {
	local files=()

	for package in "${@:3}"; do
		files+=("/packages/$2/${package}_*.deb")
	done
	on "$1" sh -euc "apt-get -qq install --yes --allow-downgrades -o Dpkg::Options::=--force-confold ${files[*]}" \
		>"$work/install.err" 2>&1 || fail "$1: $(tail -n 20 "$work/install.err")"
}
agent_packages=(slime-peeragent slime-bench libslime0.1 libslime-agent0.1)

# The program that runs is that of the package: the file of another one is deleted.
runs() { # NODE UNIT
	[ "$(on "$1" sh -c "readlink /proc/$(on "$1" systemctl show -P MainPID "$2")/exe")" = "/usr/bin/$2" ]
}
is_ready_at() {
	curl -sf "${urls[${1#node-} - 1]}/readyz"
}
whole() {
	[ "$(links | grep -c ' kv connected ')" -eq 6 ]
}
wait_whole() {
	wait_for 20 whole || fail "not every link is connected: $(links)"
}
lives() {
	for node in "${nodes[@]}"; do
		curl -sf "$url/v1/agents/$node?scope=test" | sed 's/.*"generation":\([0-9]*\).*/\1/'
	done
}
connects() {
	for node in "${nodes[@]}"; do
		curl -sf "http://10.88.0.$((${node#node-} + 1)):9464/metrics" | grep '^slime_link_connects_total.*profile="kv"'
	done
}

# load WRITER FROM TO: measures from one agent to another again and again, in the background.
measure_again_and_again() {
	rm -f "$work/enough"
	# shellcheck disable=SC2016 # the inner shell expands it
	spawn measure bash -uc 'n=0
until [ -e "$0/enough" ]; do
	"$@" || exit 1
	n=$((n + 1))
done
echo "$n measurements"' "$work" "$bin/slime-bench" transfer --ctrl "${urls[0]}" --ctrl "${urls[1]}" --ctrl "${urls[2]}" \
		--scope test --tcp-bind 10.88.0.1 --from "$1" --peer "$2" --block-size 16KiB --batch-size 4 --duration 300ms
}
measured_without_failure() {
	touch "$work/enough"
	reap measure
	[ "$status" -eq 0 ] || fail "a measurement failed: $(tail -n 3 "$work/measure.err")"
	tail -n 1 "$work/measure.out"
}

roll_nanoctrl() { # VERSION
	local before_lives before_connects

	before_lives=$(lives)
	before_connects=$(connects)
	measure_again_and_again node-1 node-2
	for node in "${nodes[@]}"; do
		install_on "$node" "$1" slime-nanoctrl
		runs "$node" nanoctrl || fail "nanoctrl on $node does not run, or is that of before"
		wait_for 20 is_ready_at "$node" || fail "nanoctrl on $node is not ready"
	done
	measured_without_failure
	[ "$(lives)" = "$before_lives" ] || fail "an agent registered again: $before_lives, now $(lives)"
	[ "$(connects)" = "$before_connects" ] || fail "a link was made again: $before_connects, now $(connects)"
}

roll_agents() { # VERSION
	local i

	for i in 0 1 2; do
		measure_again_and_again "${nodes[(i + 1) % 3]}" "${nodes[(i + 2) % 3]}"
		install_on "${nodes[i]}" "$1" "${agent_packages[@]}"
		wait_for 20 runs "${nodes[i]}" peeragent || fail "the agent on ${nodes[i]} does not run, or is that of before"
		"$bin/nanoctrl" obs links --address "$url" --scope test --wait 20s >"$work/links" || fail "$(cat "$work/links")"
		wait_whole
		measured_without_failure
	done
}

redis redis 6379
say "three hosts with the packages of the commit before"
for node in "${nodes[@]}"; do
	boot "$node" configure "$node"
	install_on "$node" before slime-nanoctrl "${agent_packages[@]}"
	is_ready_at "$node" >/dev/null || fail "nanoctrl on $node is not ready"
	on "$node" systemctl start peeragent
done
printf '%s\n' 'version: 1' 'name: nodes' 'links: [{ mesh: "role=node", profile: kv, transports: [tcp] }]' >"$work/nodes.yaml"
"$bin/nanoctrl" apply --file "$work/nodes.yaml" --scope test --address "$url"
wait_whole
spawn load python3 "$SLIME_SOURCE/tests/deploy/load.py" "${urls[@]}"

say "upgrade: nanoctrl, one replica at a time"
roll_nanoctrl now
say "upgrade: agents, one by one"
roll_agents now

say "roll back: agents, then nanoctrl"
roll_agents before
roll_nanoctrl before

say "Redis moves"
before_lives=$(lives)
redis new 6380 --replicaof 10.88.0.1 6379
in_sync() {
	redis-cli -h 10.88.0.1 -p 6380 info replication | grep -q '^master_link_status:up'
}
wait_for 20 in_sync || fail "the new Redis has no connection to the old one"
redis-cli -h 10.88.0.1 -p 6379 failover to 10.88.0.1 6380 timeout 5000
is_primary() {
	redis-cli -h 10.88.0.1 -p 6380 role | grep -qx master
}
wait_for 10 is_primary || fail "the new Redis did not take over"
for node in "${nodes[@]}"; do
	on "$node" sed -i 's/:6379/:6380/' /etc/slime/nanoctrl.yaml
	on "$node" systemctl restart nanoctrl
	wait_for 20 is_ready_at "$node" || fail "nanoctrl on $node is not ready with the new Redis"
done
end redis
wait_whole
[ "$(lives)" = "$before_lives" ] || fail "an agent registered again: $before_lives, now $(lives)"

end load
[ "$status" -eq 0 ] || fail "the load: $(cat "$work/load.err")"
cat "$work/load.out"
