#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/ansible on two hosts, by ssh: nanoctrl and an agent on one, an agent on the other, which are linked. The second
# run changes nothing; a change of the inventory reaches the agent.
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

for tool in ansible-playbook ssh; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done

let_in() { # ROOT
	chroot "$1" sh -c 'mkdir -p -m 700 ~root/.ssh && cat >~root/.ssh/authorized_keys' <"$work/key.pub"
	chroot "$1" systemctl -q enable ssh 2>/dev/null
}
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
boot host-1 let_in
boot host-2 let_in

cat >"$work/inventory.yaml" <<END
all:
  vars:
    ansible_user: root
    ansible_python_interpreter: /usr/bin/python3
    slime_packages: $debs/now
    slime_scope: test
    slime_agent: { links: [{ to: "role=node" }] }
  children:
    nanoctrl: { hosts: { host-1: { ansible_host: ${address[host-1]} } } }
    agents:
      vars: { slime_labels: { role: node } }
      hosts: { host-1: , host-2: { ansible_host: ${address[host-2]} } }
END
play() {
	HOME=$work ANSIBLE_HOME=$work/ansible ANSIBLE_HOST_KEY_CHECKING=False ANSIBLE_PRIVATE_KEY_FILE=$work/key ANSIBLE_NOCOLOR=1 \
		ansible-playbook --inventory "$work/inventory.yaml" "$SLIME_SOURCE/deploy/ansible/site.yaml" >"$work/play" 2>&1 </dev/null ||
		fail "$(tail -n 30 "$work/play")"
	sed -n '/^PLAY RECAP/,$p' "$work/play"
}

say "the first run"
play
url=http://${address[host-1]}:3000
wait_link 20 host-1 host-2 default connected

say "the second run changes nothing"
play
[ "$(grep -c 'changed=0 .*failed=0' "$work/play")" -eq 2 ] || fail "$(cat "$work/play")"

say "a change of the inventory"
sed -i 's/role: node }/role: node, zone: b }/' "$work/inventory.yaml"
play
has_label() {
	curl -sf "$url/v1/agents/$1?scope=test" | grep -q '"zone":"b"'
}
for host in host-1 host-2; do
	wait_for 20 has_label $host || fail "$host has no new label"
done
