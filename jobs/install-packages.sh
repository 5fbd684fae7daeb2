#!/usr/bin/env bash
# Installs the Debian 12 packages that Tessera needs and that are missing; does nothing where all are present.
# Usage: jobs/install-packages.sh [build] [test] [charts] [plots] [browser] [slurm] [--list]
#   build    compiler, MPI, HDF5 and libraries (the default)
#   test     what the tests need besides: Catch2, h5py, pandas, xarray, shellcheck
#   charts   npm, which brings the report's chart library (jobs/install-chart-library.sh)
#   plots    matplotlib, for the picture of the accuracy page (jobs/accuracy.sh)
#   browser  headless Chromium for the report's tests
#   slurm    a local Slurm for the scheduler test
#   --list   prints the package names, one a line, and installs nothing
# Needs root or sudo only when something is missing.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build ccache
  mpich libmpich-dev libhdf5-mpich-dev hdf5-tools
  libtbb-dev libcli11-dev libtomlplusplus-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libdeflate-dev libceres-dev libeigen3-dev
)
test_packages=(
  catch2 libbenchmark-dev
  python3 python3-h5py python3-numpy python3-pandas python3-xarray
  shellcheck bash-completion
)
charts_packages=(npm)
plots_packages=(python3-matplotlib python3-pandas)
browser_packages=(chromium)
slurm_packages=(slurm-wlm munge)

wanted=()
list_only=0
for word in "$@"; do
  case "$word" in
    build) wanted+=("${build_packages[@]}") ;;
    test) wanted+=("${test_packages[@]}") ;;
    charts) wanted+=("${charts_packages[@]}") ;;
    plots) wanted+=("${plots_packages[@]}") ;;
    browser) wanted+=("${browser_packages[@]}") ;;
    slurm) wanted+=("${slurm_packages[@]}") ;;
    --list) list_only=1 ;;
    *) echo "install-packages.sh: unknown word '$word' (known: build test charts plots browser slurm --list) see the head of this script" >&2; exit 2 ;;
  esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${build_packages[@]}")
if [ "$list_only" = 1 ]; then printf '%s\n' "${wanted[@]}"; exit 0; fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  # A virtual name (pulled in under another name) has no status of its own; apt then decides.
  case "$status" in ii*) ;; *) missing+=("$package") ;; esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-packages.sh: apt-get is missing (this is not Debian or Ubuntu) install the equivalents of: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-packages.sh: packages are missing (neither root nor sudo) ask an administrator for: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}" >&2
install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "${missing[@]}" </dev/null >&2
}
# The lists of a fresh machine are often stale or absent: refresh once, and only then give up.
"${as_root[@]}" apt-get update -q </dev/null >&2 || echo "install-packages.sh: apt-get update failed, trying with the present lists" >&2
install_missing
