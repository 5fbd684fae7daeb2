#!/usr/bin/env bash
# From a fresh clone to the first answer: installs what is missing (apt-get, as root or with sudo), builds
# Tessera, sweeps the paper's grid on 32 nodes of 8 B200 over 20 days on two MPI ranks and prints the ten best.
# Works from any folder and as often as you like. Arguments go to the sweep, e.g. --record best.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs/install-packages.sh build
jobs/install-chart-library.sh ||
  echo "quickstart.sh: the chart library could not be installed; everything but 'tessera report' works" >&2
. jobs/environment.sh
jobs/build.sh -DTESSERA_TESTS=OFF
"$TESSERA_MPIEXEC" -n 2 build/tessera sweep jobs/paper.toml --out results/paper --redo "$@" </dev/null
echo
echo "Every evaluation: $PWD/results/paper/results.h5"
