#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Works from any folder and as often as you like.
# Arguments go to ctest, e.g. tests/run.sh -R cli. The output ends with ctest's summary.
# TESSERA_DATA names the folder of measurements (default ../shared/data beside the checkout); tests that need it
# are skipped with a message where it is absent.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs/install-packages.sh build test
for optional in browser slurm; do
  jobs/install-packages.sh "$optional" ||
    echo "run.sh: the packages for '$optional' could not be installed; the tests that need them are skipped" >&2
done
jobs/install-chart-library.sh ||
  echo "run.sh: the chart library could not be installed; the tests of the report are skipped" >&2
. jobs/environment.sh
jobs/build.sh -DTESSERA_TESTS=ON
build=${TESSERA_BUILD_DIR:-$PWD/build}
exec ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" "$@" </dev/null
