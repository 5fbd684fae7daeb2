#!/usr/bin/env bash
# The hot kernel is still made of vector arithmetic: in the objects of lane_kernel_*.cpp packed operations on doubles
# outnumber scalar ones, and those of AVX2 and AVX-512 use 256-bit registers.
set -euo pipefail
objects=${TESSERA_BINARY_DIR:?}/model/CMakeFiles/tessera_model.dir
if [ -n "${TESSERA_SANITIZE:-}" ]; then echo "skipped: a sanitizer build"; exit 77; fi
if ! grep -q '^CMAKE_BUILD_TYPE:STRING=Rel' "$TESSERA_BINARY_DIR/CMakeCache.txt"; then echo "skipped: not an optimised build"; exit 77; fi
case "$(uname -m)" in x86_64) ;; *) echo "skipped: the counts are of x86-64 instructions"; exit 77 ;; esac
count() { objdump -d --no-show-raw-insn "$1" | grep -cE "$2" || true; }
for kernel in portable avx2 avx512; do
  object=$objects/lane_kernel_$kernel.cpp.o
  packed=$(count "$object" '\sv?(add|sub|mul|max|min)pd ')
  scalar=$(count "$object" '\sv?(add|sub|mul|max|min)sd ')
  wide=$(count "$object" '\sv(add|sub|mul|max|min)pd .*ymm')
  echo "$kernel: $packed packed, $scalar scalar, $wide in 256-bit registers"
  if [ "$packed" -lt 300 ] || [ "$packed" -lt $((3 * scalar)) ]; then echo "the kernel $kernel is no longer vectorised"; exit 1; fi
  if [ "$kernel" != portable ]; then
    [ "$wide" -ge 300 ] || { echo "the kernel $kernel does not use its registers"; exit 1; }
  fi
done
