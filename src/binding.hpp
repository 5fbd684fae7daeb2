// What holds a plan back.
#pragma once
#include <string>

#include "tessera/cluster.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

struct Binding {
  std::string part;   ///< "memory" where the plan does not fit; else the largest of "compute", "network", "host", "pipeline ramp"
  std::string level;  ///< where the network binds: the fabric's level that the largest exposed traffic crosses; else empty
  std::string text;   ///< in a line for a person: the parts with their shares, the largest first
};
Binding binding_of(const StepCost&, const Plan&, const Fabric&);

}  // namespace tessera
