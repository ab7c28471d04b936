#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/slurm under a slurmctld and two slurmd on this host: a job finds an agent on each of its nodes, and after its end
# nothing of them is left; a job that is cancelled leaves nothing either; without nanoctrl the prolog says so.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster.sh"

[ "$(id -u)" -eq 0 ] || skip "only root runs slurmd"
for tool in slurmctld slurmd munged sbatch; do
	command -v $tool >/dev/null || skip "$tool is not installed: deploy/packages.sh deploy"
done
export PATH=$bin:$PATH SLURM_CONF=$work/slurm.conf
chmod 755 "$work"
start_control

say "a Slurm of two nodes"
mkdir "$work/slurm" "$work/state" "$work/spool"
cp "$SLIME_SOURCE"/deploy/slurm/* "$work/slurm/"
printf '%s\n' "PATH=$PATH" "export PATH" "SLIME_CTRL=$url" "SLIME_NODE_FILE=$SLIME_SOURCE/configs/node.yaml" \
	"SLIME_TOPOLOGY=$work/slurm/job.yaml" "SLIME_RUN=$work/jobs" "SLIME_WAIT=60" >"$work/slurm/slurm.env"
for env in ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
	[ -z "${!env:-}" ] || printf 'export %s=%q\n' $env "${!env}" >>"$work/slurm/slurm.env"
done
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
for name in slurmctld n1 n2; do
	take_port $name
done
cat >"$SLURM_CONF" <<END
ClusterName=trial
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock
SlurmctldPort=${port_of[slurmctld]}
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmdSpoolDir=$work/spool/%n
SlurmctldLogFile=$work/slurmctld.err
SlurmdLogFile=$work/%n.err
StateSaveLocation=$work/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
PrologFlags=Alloc
Prolog=$work/slurm/prolog.sh
Epilog=$work/slurm/epilog.sh
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${port_of[n1]} CPUs=1 RealMemory=100
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${port_of[n2]} CPUs=1 RealMemory=100
PartitionName=all Nodes=ALL Default=YES State=UP
END
# Slurm's sockets take their ports while another one is bound there and does not listen.
for name in slurmctld n1 n2; do
	end "hold-$name"
done
spawn munged munged --foreground --force --socket "$work/munge.sock" --key-file "$work/munge.key" --pid-file "$work/munge.pid" \
	--log-file "$work/munge.err" --seed-file "$work/munge.seed"
wait_for 10 test -S "$work/munge.sock" || fail "munged"
spawn slurmctld slurmctld -D
spawn n1 slurmd -D -N n1
spawn n2 slurmd -D -N n2
idle() {
	[ "$(sinfo --noheader --format %t%D)" = "idle2" ]
}
wait_for 30 idle || fail "the nodes: $(sinfo 2>&1)"

agents() {
	"$bin/nanoctrl" get agents --address "$url" --scope "job-$1"
}
ended() {
	[ -z "$(squeue --noheader --jobs "$1" 2>/dev/null)" ] && idle
}
nothing_left() {
	[ -z "$(ls -A "$work/jobs")" ] && ! agents "$1" | grep -q '^n[12] ' &&
		! "$bin/nanoctrl" get topologies --address "$url" --scope "job-$1" | grep -q '^job '
}

say "a job"
job=$(SLIME_CTRL=$url sbatch --parsable --output="$work/job.out" "$work/slurm/example.sbatch")
wait_for 60 ended "$job" || fail "job $job: $(squeue; cat "$work/job.out")"
grep -q '^between .* and n2 over shm$' "$work/job.out" || fail "$(cat "$work/job.out")"
wait_for 20 nothing_left "$job" || fail "it left: $(ls "$work/jobs"; agents "$job")"

say "a job that is cancelled"
job=$(sbatch --parsable --nodes=2 --ntasks-per-node=1 --output=/dev/null --wrap 'sleep 600')
both() {
	[ "$(agents "$job" | grep -c '^n[12] ')" -eq 2 ]
}
wait_for 60 both || fail "agents of job $job: $(agents "$job")"
scancel "$job"
wait_for 60 ended "$job" || fail "job $job: $(squeue)"
wait_for 20 nothing_left "$job" || fail "it left: $(ls "$work/jobs"; agents "$job")"

say "without nanoctrl"
end nanoctrl
sed -i 's/^SLIME_WAIT=.*/SLIME_WAIT=1/' "$work/slurm/slurm.env"
sbatch --parsable --nodes=1 --no-requeue --output=/dev/null --wrap true >/dev/null
says_why() {
	grep -qs 'slime: the agent is not registered after 1 s' "$work/n1.err" "$work/n2.err"
}
wait_for 30 says_why || fail "the prolog says nothing"
no_agent() {
	! pgrep -f "agent.state_dir=$work/jobs"
}
wait_for 20 no_agent || fail "its agent is left: $(pgrep -af "agent.state_dir=$work/jobs")"
