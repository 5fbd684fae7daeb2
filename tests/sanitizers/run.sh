#!/usr/bin/env bash
# Builds with a sanitizer and runs the tests under it: tests/sanitizers/run.sh asan-ubsan|tsan [arguments of ctest]
# asan-ubsan: address, leak and undefined behaviour. tsan: data races, with a TBB built for it (its source comes from
# Debian's archive into the build folder; without the instrumentation TSan cannot see TBB's hand-overs).
# The build goes to build-asan-ubsan/ or build-tsan/, as the CMake presets of these names do.
set -euo pipefail
preset=${1:?usage: tests/sanitizers/run.sh asan-ubsan|tsan [arguments of ctest]}
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/sanitizers
build=${TESSERA_BUILD_DIR:-$root/build-$preset}
case "$preset" in
  asan-ubsan) sanitize=address,undefined ;;
  tsan) sanitize=thread ;;
  *) echo "run.sh: unknown preset '$preset' (known: asan-ubsan tsan)" >&2; exit 2 ;;
esac
"$root/jobs/install-packages.sh" build test
. "$root/jobs/environment.sh"

# Debian's source of oneTBB, by a package index of its own so that the machine's sources stay as they are.
build_tbb() {
  local work=$1 codename uri
  [ -f "$work/install/lib/cmake/TBB/TBBConfig.cmake" ] && return 0
  mkdir -p "$work"/{lists/partial,parts,source}
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016 # apt-get expands its own fields
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
  cat >"$work/parts/source.sources" <<END
Types: deb-src
URIs: $uri
Suites: $codename
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
  local apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts"
    -o "Dir::State::lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=)
  "${apt[@]}" update
  (cd "$work" && "${apt[@]}" source --download-only onetbb)
  tar -xf "$work"/onetbb_*.orig.tar.* -C "$work/source" --strip-components=1
  cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_TEST=OFF -DTBB_STRICT=OFF \
    -DTBB_SANITIZE=thread -DTBBMALLOC_BUILD=OFF -DCMAKE_INSTALL_PREFIX="$work/install" -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build "$work/build" --parallel "$(nproc)"
  cmake --install "$work/build"
}

options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DTESSERA_SANITIZE="$sanitize" -DTESSERA_TESTS=ON)
if [ "$preset" = tsan ]; then
  build_tbb "$build/tbb"
  options+=(-DTBB_DIR="$build/tbb/install/lib/cmake/TBB")
  # UCX replaces mmap and munmap; the replacement deadlocks with TSan's.
  export UCX_MEM_EVENTS=n
fi
cmake -S "$root" -B "$build" -G Ninja "${options[@]}" </dev/null
cmake --build "$build" --parallel "$(nproc)" </dev/null

# Suppressed is what MPICH, UCX and hwloc do themselves; nothing of Tessera's.
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:halt_on_error=1:allocator_may_return_null=1"
export LSAN_OPTIONS="suppressions=$here/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="suppressions=$here/tsan.supp:halt_on_error=1:second_deadlock_stack=1"
# The fuzzer and the random kills run shorter: everything is several times slower here.
export TESSERA_FUZZ_SECONDS=${TESSERA_FUZZ_SECONDS:-30} TESSERA_KILLS=${TESSERA_KILLS:-10}
exec ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" --timeout 1800 "$@" </dev/null
