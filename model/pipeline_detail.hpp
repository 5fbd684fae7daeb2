// Shared by the pipeline's simulation and closed forms: checked, blocking-reduced part times and their placement.
// Not a public header.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/pipeline.hpp"

namespace tessera::detail {

/// Part times in path order after the blocking reduction: `hop` is a pure latency (0 when blocking).
struct Parts {
  Schedule schedule = Schedule::one_f_one_b;
  int pp = 1;
  std::vector<double> forward, input_gradient, weight_gradient;
  double hop = 0.0;

  std::size_t size() const { return forward.size(); }
  /// Does the path begin (end) with this part? DualPipe has two paths of pp parts.
  bool first_of_path(int part) const {
    return part == 0 || (schedule == Schedule::dualpipe && part == pp);
  }
  bool last_of_path(int part) const {
    return part + 1 == static_cast<int>(size()) || (schedule == Schedule::dualpipe && part == pp - 1);
  }
  int device(int part) const {
    if (schedule == Schedule::dualpipe && part >= pp) return 2 * pp - 1 - part;
    return part % pp;
  }
};

/// Throws InputError unless the shape is one the schedule has an order for: pp >= 1, n >= 1, virtual stages only
/// when interleaved, interleaved: n a multiple of pp; DualPipe: pp and n even, n >= 2 pp, overlap in 0..1.
void check_shape(Schedule, int pp, int virtual_stages, std::int64_t n, double overlap);

/// check_shape(), lengths and values of the times (finite, not negative), and the blocking reduction of section 1.
Parts checked_parts(Schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes&);

/// Throws InputError for ZB-H1 with fewer micro-batches than stages: its closed form needs a full warm-up.
void check_zb_h1(int pp, std::int64_t n);

/// Closed form of DualPipe on 2 pp parts (both directions), pipeline_dualpipe.cpp.
double dualpipe_makespan(std::int64_t n, const Parts&, double overlap);

/// Throws InputError where the tables of a simulation would not fit into memory.
void check_simulation_size(std::size_t parts, std::int64_t n);

}  // namespace tessera::detail
