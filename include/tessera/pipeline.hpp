// Pipeline schedules: makespan of a step and micro-batches in flight. All times in seconds (or any one unit).
// Sources of the orders: 1F1B and interleaving as in Megatron-LM, ZB-H1 as in "Zero Bubble Pipeline Parallelism",
// DualPipe as in the DeepSeek-V3 report; formulas were derived as longest paths of their dependency graphs.
//
// Words: pp devices in a row, n micro-batches per step (DualPipe: over both directions), a *part* is the piece of
// the model that runs as one operation: a whole stage, or one of the v chunks of a stage when interleaved.
// Every part has a forward f, an input gradient b and a weight gradient w; 1F1B and interleaving run b + w as one
// backward, ZB-H1 runs w later, in the gaps.
#pragma once
#include <cstdint>
#include <span>
#include <vector>
#include "tessera/plan.hpp"

namespace tessera {

/// Times of the model parts, in path order. Linear schedules: pp parts. Interleaved: pp*v parts, part s on device
/// s % pp. DualPipe: 2*pp parts, direction 0 parts 0..pp-1 then direction 1 parts 0..pp-1 (part s of direction 1 is
/// on device pp-1-s).
struct PipelineTimes {
  std::vector<double> forward, input_gradient, weight_gradient;  ///< [s] finite, >= 0
  double hop = 0.0;       ///< point-to-point time of an edge between devices [s]
  bool blocking = false;  ///< hop occupies the sender (added to f and b of the parts that send) instead of latency
  double overlap = 0.0;   ///< rho of DualPipe: a forward and a backward run as f + bf - rho*min(f, bf), 0..1
};

struct PipelineResult {
  double makespan = 0.0;         ///< first start to last end over all devices [s]
  double max_device_span = 0.0;  ///< the longest of a device's own first start to own last end [s]
  std::vector<int> in_flight_until_weight;  ///< per device, in parts: from forward to weight gradient
  std::vector<int> in_flight_until_input;   ///< per device, in parts: from forward to input gradient
};

/// Event (longest-path) simulation of the fixed per-device order of a schedule: exact, O(parts * n) in time and
/// memory. Throws InputError where the schedule has no such order: pp < 1, n < 1, virtual_stages > 1 unless
/// interleaved, interleaved with n no multiple of pp, DualPipe unless pp and n are even and n >= 2 pp; where a
/// list has the wrong length or a time is negative or not finite; where parts * n is beyond 2^27.
PipelineResult simulate_pipeline(Schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes&);

/// Closed form, cost independent of n: O(pp) without hop latency (DualPipe, interleaved: O(parts)), O(pp^2) with.
/// Against the simulation:
///   1F1B          exact without latency at any stage times and any n >= 1; with latency exact for equal stages,
///                 else at most 2 % low (hop <= f/2)
///   interleaved   exact for equal chunks while hop <= min(f, b+w); a lower bound otherwise: with an embedding and
///                 a head on otherwise equal chunks at most 3 % low; for uneven chunks 4 % low on average and 25 %
///                 at most (their slow chunks do not line up in time; no closed form is known)
///   ZB-H1         exact for equal stages, and for an embedding and a head, without latency and n >= 3 pp; a lower
///                 bound otherwise (at most 3.5 % low for n >= 3 pp, up to 17 % low for pp <= n < 3 pp)
///   DualPipe      exact for equal stages without latency. Unequal stages: the longest of a family of the graph's
///                 paths (model/pipeline_dualpipe_form.hpp), a lower bound; low by, on average and at most: embedding
///                 and head 0.05 % and 2.5 %, uneven layers 0.2 % and 5 %, random stages 0.4 % and 5 %. With
///                 latency (hop <= f/2) on average 1 % and at most 7 % off, either way
/// Throws InputError as simulate_pipeline(), and for ZB-H1 with n < pp (its form needs a full warm-up).
double pipeline_makespan(Schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes&);

/// A run of `count` neighbouring equal parts; hops already folded into the times (blocking reduction).
struct StageRun {
  int count = 1;  ///< >= 1
  double forward = 0.0, input_gradient = 0.0, weight_gradient = 0.0;  ///< of one part [s]
};

/// The same closed forms on run-length encoded parts in path order (pp parts; interleaved pp*v): cost grows with
/// the number of runs (a usual model has 3: first, middle ones, last), never with pp, v or n. What the search uses.
/// Equal to pipeline_makespan() on the expanded parts (same schedule, hop 0) up to rounding. DualPipe takes the pp
/// parts of one direction (both directions are alike). No allocation up to 32 runs. `overlap`: PipelineTimes.
/// Throws InputError as the form above; negative times are a broken precondition and not looked for.
double pipeline_makespan(Schedule, int pp, int virtual_stages, std::int64_t n, std::span<const StageRun> parts,
                         double overlap);

/// Micro-batches whose activations are held whole at the peak, on stage `stage` of pp, in units of a whole stage
/// (interleaved: parts / v). ZB-H1: until the input gradient; what is held longer is deferred_in_flight().
/// Preconditions: 0 <= stage < pp, n >= 1 and the n of simulate_pipeline(). Pure, O(1).
double in_flight(Schedule, int pp, int virtual_stages, std::int64_t n, int stage);

/// ZB-H1: further micro-batches of which, at the same moment, only what the weight gradient needs is held (inputs
/// of linear layers and gradients of their outputs): min(pp, n) - min(pp - stage, n). 0 for the other schedules.
double deferred_in_flight(Schedule, int pp, std::int64_t n, int stage);

}  // namespace tessera
