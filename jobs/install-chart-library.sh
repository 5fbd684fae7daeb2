#!/usr/bin/env bash
# Installs the chart library of `tessera report` (Apache ECharts, version and checksum fixed by
# io/report/package-lock.json) into io/report/node_modules with npm, which is installed if it is missing. Nothing
# to do where it is there. The build finds it; without it everything but `tessera report` works.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=$(sed -nE 's/.*"echarts": "([0-9.]+)".*/\1/p' io/report/package.json | head -1)
installed=$(sed -nE 's/^ *"version": "([^"]+)".*/\1/p' io/report/node_modules/echarts/package.json 2>/dev/null | head -1 || true)
[ "$wanted" != "$installed" ] || exit 0
command -v npm >/dev/null || jobs/install-packages.sh charts
npm ci --prefix io/report --ignore-scripts --no-audit --no-fund --fetch-timeout=30000 --fetch-retries=1 </dev/null >&2
