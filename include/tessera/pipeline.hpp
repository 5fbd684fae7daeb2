// Pipeline schedules: makespan of a step and micro-batches in flight. Formulas: pipeline-schedules.md sections
// 3 and 5; all times in seconds (or any one unit), exactness as stated there.
#pragma once
#include <span>
#include <vector>
#include "tessera/plan.hpp"

namespace tessera {

/// Times of the model parts ("stages"), in path order. Linear schedules: pp parts. Interleaved: pp*v parts,
/// part s on device s % pp. DualPipe: 2*pp parts, direction 0 parts 0..pp-1 then direction 1 parts 0..pp-1
/// (part s of direction 1 is on device pp-1-s).
struct PipelineTimes {
  std::vector<double> forward, input_gradient, weight_gradient;
  double hop = 0.0;       ///< point-to-point time of an edge between devices
  bool blocking = false;  ///< hop occupies the sender (reduction of section 1) instead of being a latency
  double overlap = 0.0;   ///< rho of DualPipe's overlapped forward-and-backward chunk, 0..1
};

struct PipelineResult {
  double makespan = 0.0;
  std::vector<int> in_flight_until_weight;  ///< per device, in parts
  std::vector<int> in_flight_until_input;
};

/// Event (longest-path) simulation of the fixed per-device order of a schedule; O(parts * n). Exact.
/// Preconditions: n >= 1; interleaved: n % pp == 0; DualPipe: pp even, n even, n >= 2*pp.
PipelineResult simulate_pipeline(Schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes&);

/// Closed form, cost independent of n: exact for 1F1B without latency at any stage times and any n; exact or a
/// tight lower bound elsewhere (section 4b).
double pipeline_makespan(Schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes&);

/// A run of `count` neighbouring equal parts; hops already folded into the times (blocking reduction).
struct StageRun {
  int count = 1;
  double forward = 0.0, input_gradient = 0.0, weight_gradient = 0.0;
};

/// The same closed forms on run-length encoded parts in path order (pp parts; interleaved pp*v): cost grows with
/// the number of runs (a usual model has 3: first, middle ones, last), never with pp or n. What the search uses.
/// Equal to pipeline_makespan() on the expanded parts (same schedule, hop 0). DualPipe takes the pp parts of one
/// direction (both directions are alike). No allocation.
double pipeline_makespan(Schedule, int pp, int virtual_stages, std::int64_t n, std::span<const StageRun> parts,
                         double overlap);

/// Micro-batches whose activations of the whole stage are held at the peak, on stage `stage` of pp, in units
/// of a whole stage (interleaved: parts / v). Section 5 and memory-and-space.md A.3.
double in_flight(Schedule, int pp, int virtual_stages, std::int64_t n, int stage);

}  // namespace tessera
