#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Epilog of slurmd: ends the agent that prolog.sh started, and removes the topology of the job.
set -eu
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=slurm.env
. "$here/slurm.env"
dir=$SLIME_RUN/$SLURM_JOB_ID-$SLURMD_NODENAME

[ -e "$dir/agent" ] || exit 0
read -r pid began <"$dir/agent"
lives() {
	[ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d ' ' -f 20)" = "$began" ]
}
! lives || kill -TERM "$pid"
for ((i = 0; i < 200; i++)); do
	lives || break
	sleep 0.1
done
! lives || kill -KILL "$pid"
# The first node of the job that ends removes it; for the others it is gone. Without nanoctrl it stays, and links nobody.
nanoctrl delete topology job --scope "job-$SLURM_JOB_ID" --address "$SLIME_CTRL" >/dev/null 2>&1 || true
rm -rf "$dir"
