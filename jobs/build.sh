#!/usr/bin/env bash
# Configures and builds Release into build/ of this checkout. Arguments go to cmake, e.g. -DTESSERA_TESTS=ON.
# TESSERA_BUILD_DIR chooses another folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${TESSERA_BUILD_DIR:-$root/build}

# A compiler cache needs a folder it can write to; accounts without a home get one beside the build.
if [ -z "${CCACHE_DIR:-}" ] && ! [ -w "${HOME:-/nonexistent}" ]; then export CCACHE_DIR="$build/ccache"; fi

arguments=(-S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release)
if [ -f "$build/CMakeCache.txt" ]; then
  # A folder that was copied or moved with its cache cannot be configured again: start it afresh.
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
  [ "$home" = "$root" ] || arguments+=(--fresh -G Ninja)
else
  arguments+=(-G Ninja)
fi
cmake "${arguments[@]}" "$@" </dev/null
cmake --build "$build" --parallel "$(nproc)" </dev/null
