// Google Benchmark's main, with a heap that does not give pages back: what earlier benchmarks leave in it must not
// decide how long later ones take.
#include <benchmark/benchmark.h>
#include <malloc.h>

int main(int count, char** arguments) {
  constexpr int kKeep = 1 << 28;  // [B]
  mallopt(M_TRIM_THRESHOLD, kKeep);
  mallopt(M_MMAP_THRESHOLD, kKeep);
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
