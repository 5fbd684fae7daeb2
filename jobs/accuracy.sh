#!/usr/bin/env bash
# Regenerates the picture of docs/accuracy.md, and prints the tables: predicted against measured step times of the runs.
#   jobs/accuracy.sh RUNS.csv [PICTURE]      (default picture: docs/images/accuracy.png)
# Needs the program (jobs/build.sh); installs matplotlib where it is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runs=${1:?usage: accuracy.sh RUNS.csv [PICTURE]}
picture=${2:-$root/docs/images/accuracy.png}
"$root/jobs/install-packages.sh" plots
errors=$(mktemp -t tessera-errors-XXXXXX.csv)
trap 'rm -f "$errors"' EXIT
"${TESSERA:-$root/build/tessera}" validate "$runs" --out "$errors"
/usr/bin/python3 "$root/jobs/accuracy_plot.py" "$runs" "$errors" "$picture"
echo "picture: $picture"
