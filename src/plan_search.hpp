// Every legal plan of one architecture on one cluster and batch, costed: what plan and explain share.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

struct PlanQuestion {
  Architecture architecture;
  Cluster cluster;               ///< devices set
  std::int64_t batch = 0;        ///< sequences per step
  std::int64_t sequence = 0;     ///< tokens
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  std::vector<std::string> fix, forbid;  ///< "tp=8", "schedule=dualpipe"
};

/// The study of the question. Axes not fixed: tp up to the innermost domain, cp up to one rank per 1,024 tokens, micro-batches
/// 1 to 8 in powers of two, virtual stages up to 8, etp 1 (and tp where the stack defaults to it), the stack's default ZeRO
/// stage (every stage where it may be combined with pp), every recomputation, the stack's schedules.
/// Throws InputError naming an unknown axis or value.
Study plan_study(const PlanQuestion&);

struct RankedPlan {
  std::uint64_t id = kNoId;
  double step_seconds = 0;
};
struct PlanAnswer {
  Counts counts;
  std::vector<RankedPlan> best;  ///< ascending step time, then id; at most `top`
};

/// Costs the whole space on all threads of the process. Deterministic.
PlanAnswer search_plans(const Space&, std::size_t top);

}  // namespace tessera
