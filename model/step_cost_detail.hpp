// The scalar reference with recomputation chosen module by module (measured runs name modules, not modes).
#pragma once
#include "tessera/step_cost.hpp"

namespace tessera {

/// As evaluate(), with a mask of RecomputeModule in place of the plan's mode.
StepCost evaluate_modules(const Architecture&, const Cluster&, const Plan&, std::int64_t sequence, unsigned modules);

}  // namespace tessera
