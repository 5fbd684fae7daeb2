#!/usr/bin/env bash
# Sourced: a Slurm of one node, started as root without systemd in a folder of its own, and ended again.

# start_slurm FOLDER: returns 1 with a message where it cannot start.
start_slurm() {
  local work=$1 host
  host=$(hostname -s)
  if [ "$(id -u)" -ne 0 ]; then echo "a local Slurm needs root"; return 1; fi
  local tool
  for tool in munged slurmctld slurmd srun sbatch; do
    command -v "$tool" >/dev/null || { echo "$tool is missing (package slurm-wlm or munge)"; return 1; }
  done
  mkdir -p "$work"/munge "$work"/state "$work"/spool "$work"/log
  chmod 755 "$work"
  chmod 700 "$work/munge"
  dd if=/dev/urandom of="$work/munge/key" bs=1 count=1024 status=none
  chmod 400 "$work/munge/key"
  munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/log" --seed-file="$work/munge/seed" 2>/dev/null || { echo "munged does not start"; return 1; }
  # Ports of its own: a Slurm of the machine is left alone.
  local port=$((20000 + $$ % 20000))
  cat >"$work/slurm.conf" <<END
ClusterName=tessera_test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=10
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
  export SLURM_CONF=$work/slurm.conf
  if ! slurmctld || ! slurmd; then echo "slurmctld or slurmd does not start"; return 1; fi
  local i
  for ((i = 0; i < 60; ++i)); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
    sleep 0.5
  done
  echo "the node does not come up: $(tail -n 3 "$work"/log/slurmctld.log)"
  return 1
}

# stop_slurm FOLDER: ends what start_slurm started, by process id.
stop_slurm() {
  local work=$1 file pid i
  for file in "$work/slurmd.pid" "$work/slurmctld.pid" "$work/munge/pid"; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || true
    for ((i = 0; i < 50; ++i)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  done
}

job_state() { scontrol show job "$1" 2>/dev/null | sed -nE 's/.*JobState=([A-Z_]+).*/\1/p' | head -n 1; }

# wait_for_job ID SECONDS: prints the last state; fails when it does not end.
wait_for_job() {
  local i pending=0 state=""
  for ((i = 0; i < $2 * 2; ++i)); do
    state=$(job_state "$1")
    case "$state" in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY) echo "$state"; return 0 ;; esac
    # A requeued job waits two minutes. Its old credential has expired after 10 s (cred_expire); a node refuses to
    # start it again before that, which makes it a failed job.
    if [ "$state" = PENDING ]; then pending=$((pending + 1)); else pending=0; fi
    [ "$pending" -eq 26 ] && scontrol update JobId="$1" StartTime=now 2>/dev/null
    sleep 0.5
  done
  echo "${state:-unknown} after $2 s"
  return 1
}
