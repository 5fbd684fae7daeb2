#!/usr/bin/env bash
# Every shell script of the tree passes shellcheck; scripts a user starts are executable; the package list has no
# name twice and names only packages that exist.
set -euo pipefail
cd "${TESSERA_SOURCE_DIR:?}"
command -v shellcheck >/dev/null || { echo "skipped: shellcheck is missing"; exit 77; }
mapfile -t scripts < <(find . -path './build*' -prune -o -path ./node_modules -prune -o \
  \( -name '*.sh' -o -name '*.sbatch' -o -name '*.pbs' -o -name '*.env' -o -path './.ci/run' \) -type f -print | sort)
[ ${#scripts[@]} -ge 5 ]
shellcheck --shell=bash --external-sources --source-path=SCRIPTDIR "${scripts[@]}" src/tessera.bash
for script in .ci/run tests/run.sh jobs/quickstart.sh jobs/build.sh jobs/install-packages.sh; do
  [ -x "$script" ] || { echo "$script is not executable"; exit 1; }
done
twice=$(jobs/install-packages.sh build test browser slurm --list | sort | uniq -d)
[ -z "$twice" ] || { echo "packages listed twice: $twice"; exit 1; }
if jobs/install-packages.sh nonsense 2>/dev/null; then echo "an unknown word was accepted"; exit 1; fi
# All present: silent, no root needed.
out=$(jobs/install-packages.sh build test 2>&1); [ -z "$out" ] || { echo "unexpected output: $out"; exit 1; }
echo "${#scripts[@]} scripts pass"
