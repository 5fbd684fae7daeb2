#!/usr/bin/env bash
# Submits a study over several cluster sizes as a job array and, depending on it, the job that puts the sizes
# together into one table. Prints both job ids.
#
#   jobs/slurm/submit-array.sh STUDY OUT "16 32 64 128" "10 20 30 40" [options of sbatch]
#                                         nodes          days of the table
set -euo pipefail
study=${1:?usage: submit-array.sh STUDY OUT NODES DAYS [options of sbatch]}
out=${2:?usage: submit-array.sh STUDY OUT NODES DAYS [options of sbatch]}
read -ra nodes <<<"${3:?usage: submit-array.sh STUDY OUT NODES DAYS [options of sbatch]}"
read -ra days <<<"${4:?usage: submit-array.sh STUDY OUT NODES DAYS [options of sbatch]}"
shift 4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
array=$(sbatch --parsable --array="0-$((${#nodes[@]} - 1))" "$@" "$here/array.sbatch" "$study" "$out" "${nodes[@]}")
merge=$(sbatch --parsable --dependency="afterok:$array" "$here/merge.sbatch" "$out" "${nodes[*]}" "${days[*]}")
echo "array $array, table $merge"
