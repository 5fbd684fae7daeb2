// The forms of pipeline_forms.hpp for one plan, with its shape and times checked.
#include <cmath>
#include <string>

#include "model/pipeline_detail.hpp"
#include "model/pipeline_forms.hpp"

namespace tessera {
namespace {

[[noreturn]] void refuse_runs(int pp, int v, std::span<const StageRun> runs) {
  std::int64_t parts = 0;
  for (const StageRun& run : runs) {
    if (run.count < 1)
      throw InputError("pipeline runs: a run of " + std::to_string(run.count) + " parts", "a run has at least one part",
                       "leave empty runs out");
    parts += run.count;
  }
  if (parts != std::int64_t{pp} * v)
    throw InputError("pipeline runs: " + std::to_string(parts) + " parts for pp " + std::to_string(pp) +
                         " and virtual stages " + std::to_string(v),
                     "the schedule has pp * virtual stages parts", "give every part once, in path order");
  throw InputError("pipeline runs: a time is not finite", "a makespan needs finite times", "correct the stage times");
}

}  // namespace

double pipeline_makespan(Schedule schedule, int pp, int virtual_stages, std::int64_t n,
                         std::span<const StageRun> runs, double overlap) {
  detail::check_shape(schedule, pp, virtual_stages, n, overlap);
  if (schedule == Schedule::zb_h1) detail::check_zb_h1(pp, n);
  std::int64_t parts = 0;
  double total = 0;
  StackList<RunTimes<double>, 33> times(runs.size());
  for (const StageRun& run : runs) {
    if (run.count < 1) refuse_runs(pp, virtual_stages, runs);
    parts += run.count;
    total += run.forward + run.input_gradient + run.weight_gradient;
    times.grow() = {run.count, run.forward, run.input_gradient, run.weight_gradient};
  }
  if (parts != std::int64_t{pp} * virtual_stages || !std::isfinite(total)) refuse_runs(pp, virtual_stages, runs);
  return runs_makespan<double>(schedule, pp, virtual_stages, n, &times[0], runs.size(), overlap);
}

}  // namespace tessera
