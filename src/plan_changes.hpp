// Plans one or two digits away from a given one that would help most.
#pragma once
#include <string>
#include <vector>

#include "src/plan_search.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

struct PlanChange {
  std::string what;  ///< "ep 8 -> 16"
  Plan plan;
  StepCost cost;
};

/// At most three legal ones, the best first. Where `base` fits: plans that fit and are faster. Where it does not: the fastest
/// that fit, and where none fits those of least memory.
std::vector<PlanChange> helpful_changes(const PlanQuestion&, const Plan& base, const StepCost& cost);

}  // namespace tessera
