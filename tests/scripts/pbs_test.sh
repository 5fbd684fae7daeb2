#!/usr/bin/env bash
# The PBS script with stand-ins for qstat and qsub: it takes its time limit from the job, continues where it was interrupted
# by submitting itself with the same nodes, and ends with the sweep's answer.
set -euo pipefail
: "${TESSERA:?}" "${TESSERA_SOURCE_DIR:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
export QSUB_LOG=$work/qsub.log
cat >"$work/bin/qstat" <<'END'
#!/usr/bin/env bash
# Wide values are folded as PBS folds them.
printf 'Job Id: %s\n    Resource_List.ncpus = 2\n    Resource_List.select = 1:ncpus=2:mpiprocs=2:\n\tompthreads=1\n    Resource_List.walltime = %s\n' \
  "$2" "$WALLTIME"
END
cat >"$work/bin/qsub" <<'END'
#!/usr/bin/env bash
printf '%s\n' "$*" >>"$QSUB_LOG"
END
chmod +x "$work/bin/qstat" "$work/bin/qsub"
printf 'localhost\nlocalhost\n' >"$work/nodes"
cd "$TESSERA_SOURCE_DIR"
export PATH="$work/bin:$PATH" TESSERA OMP_NUM_THREADS=1
export PBS_O_WORKDIR=$PWD PBS_JOBID=12.host PBS_NODEFILE=$work/nodes STUDY=jobs/benchmark.toml OUT=$work/out
export OPTIONS="--nodes 32 --fix schedule=1f1b"

fail() { echo "FAILED: $*"; cat "$work/log"; exit 1; }

# Five minutes are kept for the end, so that a second is left.
code=0
WALLTIME=00:05:01 bash jobs/pbs/sweep.pbs >"$work/log" 2>&1 || code=$?
[ "$code" = 75 ] || fail "exit code $code in place of 75"
grep -q -- "-l select=1:ncpus=2:mpiprocs=2:ompthreads=1 -l walltime=00:05:01 -v STUDY=$STUDY,OUT=$OUT,OPTIONS=$OPTIONS jobs/pbs/sweep.pbs" "$QSUB_LOG" ||
  fail "the continuation was not submitted: $(cat "$QSUB_LOG")"

WALLTIME=01:00:00 bash jobs/pbs/sweep.pbs >"$work/log" 2>&1 || fail "the continuation failed"
[ "$(wc -l <"$QSUB_LOG")" = 1 ] || fail "a job that is done was submitted again"
[ -f "$OUT/results.h5" ] || fail "no results.h5"
reused=$(sed -nE 's/.*units, ([0-9]+) reused.*/\1/p' "$work/log")
[ "${reused:-0}" -gt 0 ] || fail "the continuation kept nothing"
grep -q "2 ranks" "$work/log" || fail "not one rank for each line of the node file"
echo "interrupted, continued ($reused units kept), done"
