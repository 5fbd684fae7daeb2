// A lower bound of a step's time, for the pruned search: cheap, and equal to the step of an even 1F1B pipeline but for the
// data-parallel traffic and the optimizer. A template on Real (model/lanes.hpp).
//
// A device works n micro-batches of its layers (DualPipe: n/2 of each of its two stages). It cannot begin before the first
// micro-batch has passed the parts before it; and where its last operation is a backward (1F1B, interleaved) the gradient
// has these parts still to pass. Every form of a schedule is at least this for every device, so the largest over the devices
// is a bound; of a run of equal devices the last has the most parts before it. Exposed data-parallel traffic and the
// optimizer add to it what FloorShape::fixed says.
#pragma once
#include <cstddef>

#include "model/composition.hpp"
#include "model/lanes.hpp"

namespace tessera {

/// The last device of a run of equal ones (DualPipe: of equal pairs of stages).
struct FloorPlace {
  double dense, moe, first, last, parts;                        ///< on the device; first, last: ends of the model
  double dense_before, moe_before, first_before, parts_before;  ///< on the way of the first micro-batch
};

struct FloorShape {
  const FloorPlace* places;
  std::size_t count;
  Schedule schedule;
  double micro_batches;
  double hop;                   ///< of a part boundary, one direction [s]
  double shard_dense, shard_moe, shard_end;  ///< sharded traffic of a layer or end of a device that nothing hides [s]
  double fixed;                 ///< [s]
  double stage_jitter, jitter;  ///< relative
};

namespace {

template <class Real>
Real step_floor(const FloorShape& s, const PartTimes<Real>& work, Real coupling) {
  const double heads = 1 + work.mtp_heads, embedding = work.embedding->forward + work.embedding->backward();
  const double head = heads * (work.head->forward + work.head->backward());
  const bool dual = s.schedule == Schedule::dualpipe, returns = s.schedule == Schedule::one_f_one_b || s.schedule == Schedule::interleaved;
  const Real dense = work.dense.forward + work.dense.backward(), moe = work.moe.forward + work.moe.backward();
  const double n = dual ? s.micro_batches / 2 : s.micro_batches;
  Real longest = 0;
  for (std::size_t i = 0; i < s.count; ++i) {
    const FloorPlace& p = s.places[i];
    Real time = n * (p.dense * dense + p.moe * moe + p.parts * coupling +
                     (p.first * embedding + p.last * head + s.hop * (2 * p.parts - p.first - p.last) + p.dense * s.shard_dense +
                      p.moe * s.shard_moe + (p.first + p.last) * s.shard_end));
    if (returns)
      time += p.dense_before * dense + p.moe_before * moe + p.parts_before * coupling +
              (p.first_before * embedding + s.hop * (2 * p.parts_before - p.first_before));
    else if (!dual)
      time += p.dense_before * work.dense.forward + p.moe_before * work.moe.forward +
              (p.first_before * work.embedding->forward + s.hop * p.parts_before);
    longest = top(longest, time);
  }
  return (longest * (1 + s.stage_jitter) + s.fixed) * (1 + s.jitter);
}

}  // namespace
}  // namespace tessera
