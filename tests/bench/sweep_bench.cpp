// The way through a space: tables and units, one unit, a whole sweep without files. Items are evaluations.
#include <benchmark/benchmark.h>

#include "bench_study.hpp"
#include "search/serial_context.hpp"
#include "search/walker.hpp"

namespace {

using namespace tessera;

void build_space(benchmark::State& state) {
  const Study study = bench::make_study(Record::best);
  for (auto _ : state) {
    const Space space(study);
    benchmark::DoNotOptimize(space.legal());
  }
}
BENCHMARK(build_space)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const Study study = bench::make_study(Record::best);
  const Space space(study);
  std::uint64_t id = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(space.encode(space.decode(id)));
    id = (id + 7919) % space.points();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode);

void walk(benchmark::State& state, Record record) {
  const Study study = bench::make_study(record);
  const Space space(study);
  std::uint64_t evaluations = 0;
  for (auto _ : state) {
    Walker walker(space);
    for (std::uint64_t i = 0; i < space.units(); ++i) evaluations += walker.run(i).counts.evaluations;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(evaluations));
}
BENCHMARK_CAPTURE(walk, best, Record::best)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(walk, all, Record::all)->Unit(benchmark::kMillisecond);

// Items are legal plans, as those of the exhaustive walk: most are never costed.
void pruned(benchmark::State& state) {
  Study study = bench::make_study(Record::best);
  study.search = Search::pruned;
  const Space space(study);
  std::uint64_t legal = 0;
  for (auto _ : state) {
    Walker walker(space);
    for (std::uint64_t i = 0; i < space.units(); ++i) benchmark::DoNotOptimize(walker.run(i).counts.evaluations);
    legal += space.legal();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(legal));
}
BENCHMARK(pruned)->Unit(benchmark::kMillisecond);

void whole_sweep(benchmark::State& state) {
  const Study study = bench::make_study(Record::best);
  const Space space(study);
  SerialContext context;
  std::uint64_t evaluations = 0;
  for (auto _ : state) {
    NullSink sink;
    SweepOptions options;
    options.threads = static_cast<int>(state.range(0));
    evaluations += sweep(study, space, context, sink, options).counts.evaluations;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(evaluations));
}
BENCHMARK(whole_sweep)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
