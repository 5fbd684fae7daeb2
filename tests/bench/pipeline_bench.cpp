// Makespans: the run-length forms that a search pays for every evaluation, the general forms, the simulation.
#include <benchmark/benchmark.h>

#include "tessera/pipeline.hpp"

namespace {

using namespace tessera;

constexpr int kStages = 16;

/// First, middle and last parts with an embedding and a head, or all parts alike.
std::vector<StageRun> make_runs(int parts, bool ends) {
  if (!ends) return {{parts, 1.0, 1.1, 0.9}};
  return {{1, 1.2, 1.1, 1.1}, {parts - 2, 1.0, 1.1, 0.9}, {1, 2.0, 2.2, 1.8}};
}

void runs(benchmark::State& state, Schedule schedule, int v, bool ends) {
  const auto parts = make_runs(kStages * v, ends);
  std::int64_t n = 8 * kStages;
  for (auto _ : state) {
    benchmark::DoNotOptimize(n);
    benchmark::DoNotOptimize(pipeline_makespan(schedule, kStages, v, n, parts, 0.5));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(runs, one_f_one_b, Schedule::one_f_one_b, 1, true);
BENCHMARK_CAPTURE(runs, one_f_one_b_alike, Schedule::one_f_one_b, 1, false);
BENCHMARK_CAPTURE(runs, interleaved_2, Schedule::interleaved, 2, true);
BENCHMARK_CAPTURE(runs, interleaved_8, Schedule::interleaved, 8, true);
BENCHMARK_CAPTURE(runs, interleaved_8_alike, Schedule::interleaved, 8, false);
BENCHMARK_CAPTURE(runs, zb_h1, Schedule::zb_h1, 1, true);
BENCHMARK_CAPTURE(runs, dualpipe, Schedule::dualpipe, 1, true);

PipelineTimes expand(Schedule schedule, int v) {
  PipelineTimes times;
  times.hop = 0.05;
  for (int direction = 0; direction < (schedule == Schedule::dualpipe ? 2 : 1); ++direction)
    for (const StageRun& run : make_runs(kStages * v, true))
      for (int i = 0; i < run.count; ++i) {
        times.forward.push_back(run.forward);
        times.input_gradient.push_back(run.input_gradient);
        times.weight_gradient.push_back(run.weight_gradient);
      }
  return times;
}

void general(benchmark::State& state, Schedule schedule, int v) {
  const PipelineTimes times = expand(schedule, v);
  for (auto _ : state) benchmark::DoNotOptimize(pipeline_makespan(schedule, kStages, v, 8 * kStages, times));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(general, one_f_one_b, Schedule::one_f_one_b, 1);
BENCHMARK_CAPTURE(general, interleaved_4, Schedule::interleaved, 4);
BENCHMARK_CAPTURE(general, zb_h1, Schedule::zb_h1, 1);
BENCHMARK_CAPTURE(general, dualpipe, Schedule::dualpipe, 1);

void simulation(benchmark::State& state, Schedule schedule, int v) {
  const PipelineTimes times = expand(schedule, v);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_pipeline(schedule, kStages, v, 8 * kStages, times).makespan);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(simulation, one_f_one_b, Schedule::one_f_one_b, 1);
BENCHMARK_CAPTURE(simulation, interleaved_4, Schedule::interleaved, 4);
BENCHMARK_CAPTURE(simulation, zb_h1, Schedule::zb_h1, 1);
BENCHMARK_CAPTURE(simulation, dualpipe, Schedule::dualpipe, 1);

}  // namespace
