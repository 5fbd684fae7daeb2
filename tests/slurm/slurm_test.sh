#!/usr/bin/env bash
# The scripts of jobs/slurm/ run for real on a Slurm of one node: a job, a job interrupted and requeued, an array with
# its dependent table, and a launch as singletons, which has to be refused.
set -euo pipefail
: "${TESSERA:?}" "${TESSERA_SOURCE_DIR:?}"
here=$TESSERA_SOURCE_DIR/tests/slurm
# shellcheck source=local_slurm.sh
. "$here/local_slurm.sh"
work=$(mktemp -d -t tessera-slurm-XXXXXX)
# The last files of the daemons may come while the folder goes: a second try is enough.
trap 'stop_slurm "$work/slurm"; rm -rf "$work" 2>/dev/null || { sleep 2; rm -rf "$work"; }' EXIT
fail() { echo "FAILED: $*"; tail -n 20 "$work"/*.log 2>/dev/null; exit 1; }
if ! reason=$(start_slurm "$work/slurm"); then echo "skipped: $reason"; exit 77; fi
export SLURM_CONF=$work/slurm/slurm.conf

cd "$work"
ln -s "$TESSERA_SOURCE_DIR/jobs" jobs
ranks=$(($(nproc) >= 2 ? 2 : 1))
study=$work/study.toml  # long enough for a signal to come in the middle
sed 's/^global = .*/global = [256, 512, 1024, 2048, 4096]/; s/^q = .*/q = [6, 8, 10, 12, 14, 16, 18, 20]/' \
  "$TESSERA_SOURCE_DIR/tests/faults/study.toml" >"$study"
submit() { sbatch --parsable --ntasks-per-node="$ranks" --cpus-per-task=1 "$@"; }
export TESSERA

# What the same sweep gives without a scheduler.
"$TESSERA" sweep "$study" --out alone -q >/dev/null

job=$(submit jobs/slurm/sweep.sbatch "$study" scheduled)
state=$(wait_for_job "$job" 120) || fail "job $job: $state"
[ "$state" = COMPLETED ] || fail "job $job: $state"
cmp alone/results.h5 scheduled/results.h5 || fail "the scheduled sweep differs"
echo "job: $ranks ranks, same bytes"

# USR1 as Slurm sends it before the time limit: to the batch script only.
job=$(submit jobs/slurm/sweep.sbatch "$study" requeued)
for ((i = 0; i < 400; ++i)); do
  ledger=$(find requeued/ledger -type f -size +0 2>/dev/null | head -n 1 || true)
  [ -n "$ledger" ] && break
  sleep 0.05
done
scancel --signal=USR1 --batch "$job" || true
state=$(wait_for_job "$job" 180) || fail "requeued job $job: $state"
[ "$state" = COMPLETED ] || fail "requeued job $job: $state"
cmp alone/results.h5 requeued/results.h5 || fail "the requeued sweep differs"
restarts=$(scontrol show job "$job" | sed -nE 's/.*Restarts=([0-9]+).*/\1/p')
[ "${restarts:-0}" -ge 1 ] || fail "the sweep was done before the signal came: nothing was tested"
echo "requeue: restarted $restarts time(s), same bytes"

read -ra ids <<<"$(jobs/slurm/submit-array.sh "$study" sizes "16 32" "10 20" --ntasks-per-node="$ranks" |
  sed -E 's/array ([0-9]+), table ([0-9]+)/\1 \2/')"
state=$(wait_for_job "${ids[1]}" 180) || fail "table job: $state"
[ "$state" = COMPLETED ] || fail "table job: $state"
for size in 16 32; do [ -s "sizes/nodes-$size/results.h5" ] || fail "size $size of the array is missing"; done
ls sizes/table* >/dev/null || fail "no table"
echo "array: two sizes and their table"

# MpiDefault=none: srun starts programs that do not know of one another.
code=0
srun -n "$ranks" "$TESSERA" sweep "$study" --out singletons 2>singletons.log || code=$?
if [ "$ranks" -gt 1 ]; then
  [ "$code" = 2 ] || fail "singletons ended with $code"
  grep -q SLURM_NTASKS singletons.log || fail "the refusal does not name SLURM_NTASKS"
  [ ! -e singletons ] || fail "singletons wrote something"
  echo "singletons: refused"
fi
