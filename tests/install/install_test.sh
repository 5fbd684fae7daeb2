#!/usr/bin/env bash
# cmake --install gives a program and a CMake package that work from a folder of their own.
set -euo pipefail
: "${TESSERA_BINARY_DIR:?}" "${TESSERA_SOURCE_DIR:?}"
work=$(mktemp -d -t tessera-test-XXXXXX)
trap 'rm -rf "$work"' EXIT
cmake --install "$TESSERA_BINARY_DIR" --prefix "$work/prefix" >"$work/install.log"

cd "$work"
prefix/bin/tessera --version
prefix/bin/tessera presets >presets.txt
grep -q p6-b200 presets.txt || { echo "the installed program has no presets"; exit 1; }
for file in share/bash-completion/completions/tessera share/doc/tessera/LICENSE share/tessera/jobs/paper.toml; do
  [ -f "prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
if grep -rIl -e "$TESSERA_SOURCE_DIR" -e "$TESSERA_BINARY_DIR" prefix; then
  echo "installed files name the folder they were built in"; exit 1
fi

mkdir user
cat >user/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(tessera REQUIRED)
add_executable(user main.cpp)
target_link_libraries(user PRIVATE tessera::tessera)
END
cat >user/main.cpp <<'END'
// The count of the paper's optimum by the public headers alone.
#include <cstdio>
#include <tessera/architecture.hpp>
int main() {
  const tessera::ParameterCount count = tessera::count_parameters(tessera::ladder(tessera::LadderRung{}));
  std::printf("%lld\n", static_cast<long long>(count.non_embedding_total));
}
END
cmake -S user -B user/build -DCMAKE_PREFIX_PATH="$work/prefix" ${TESSERA_SANITIZE:+-DCMAKE_CXX_FLAGS="-fsanitize=$TESSERA_SANITIZE"} >configure.log 2>&1 ||
  { cat configure.log; exit 1; }
cmake --build user/build >build.log 2>&1 || { cat build.log; exit 1; }
count=$(user/build/user)
# q 12, E 96, K 2, G 4: 327.19 B parameters.
case "$count" in 32719*) echo "find_package(tessera) works: N_tot $count" ;; *) echo "count $count, expected 327.19e9"; exit 1 ;; esac
