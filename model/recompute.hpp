// Recomputation by module: what a mode of the plan recomputes (Megatron-Core module names).
#pragma once
#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

enum RecomputeModule : unsigned {
  kCoreAttention = 1,      ///< scores only; frees nothing but the log-sum-exp with flash attention
  kExpertActivation = 2,   ///< activation of the routed experts
  kSeparateNorms = 4,      ///< norms that are not fused into a linear (before MoE, before MLA)
  kLatentUp = 8,           ///< up-projections of MLA
  kSharedExperts = 16,
  kDenseFfn = 32,
  kHalfMatmuls = 64,       ///< op-wise selection: every second matrix product and all point-wise work
  kWholeLayer = 128,
};

/// The modules a mode recomputes (memory-and-space.md A.2).
constexpr unsigned recompute_modules(Recompute mode) {
  switch (mode) {
    case Recompute::none: return 0;
    case Recompute::selective: return kCoreAttention | kExpertActivation;
    case Recompute::super_selective:
      return kExpertActivation | kSeparateNorms | kLatentUp | kSharedExperts | kDenseFfn;
    case Recompute::full: return kWholeLayer;
  }
  return 0;
}

}  // namespace tessera
