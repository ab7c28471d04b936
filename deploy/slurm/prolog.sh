#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prolog of slurmd: starts the agent of a job on this node, as the job's user, in the scope job-ID, and applies the
# topology of jobs. In slurm.conf: Prolog=/etc/slime/slurm/prolog.sh, Epilog=/etc/slime/slurm/epilog.sh and
# PrologFlags=Alloc, so that the agents are there before the batch script.
#
# Slurm drains a node whose prolog fails: its job could not have worked.
set -eu
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=slurm.env
. "$here/slurm.env"
scope=job-$SLURM_JOB_ID
dir=$SLIME_RUN/$SLURM_JOB_ID-$SLURMD_NODENAME

pid=
fail() {
	echo "slime: $*: $(tail -n 3 "$dir/log" 2>/dev/null)" >&2
	kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$dir"
	exit 1
}

[ ! -e "$dir" ] || exit 0
mkdir -p "$SLIME_RUN"
mkdir -m 755 "$dir"
mkdir -m 700 "$dir/state"
chown "$SLURM_JOB_UID" "$dir/state"
# Its own session: it is not a part of the prolog, and not of the job's steps.
setsid setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$SLURM_JOB_UID")" --init-groups \
	peeragent --config "$SLIME_NODE_FILE" --set "control.url=$SLIME_CTRL" --set "agent.name=$SLURMD_NODENAME" \
	--set "agent.scope=$scope" --set "agent.labels={slurm: node}" --set "agent.state_dir=$dir/state" \
	>"$dir/out" 2>"$dir/log" </dev/null &
pid=$!
# The pid alone may be another's by the time of the epilog.
echo "$pid $(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 20)" >"$dir/agent"
for ((i = 0; i < SLIME_WAIT * 10; i++)); do
	! grep -qs '^ready: ' "$dir/out" || break
	kill -0 "$pid" 2>/dev/null || fail "the agent ended"
	sleep 0.1
done
grep -qs '^ready: ' "$dir/out" || fail "the agent is not registered after $SLIME_WAIT s"
# On each node: the same file again changes nothing.
nanoctrl apply --file "$SLIME_TOPOLOGY" --scope "$scope" --address "$SLIME_CTRL" >>"$dir/log" 2>&1 ||
	fail "the topology is not applied"
