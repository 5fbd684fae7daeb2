// How far to trust a predicted step time: the error to expect, and in what a configuration lies outside the validated runs.
#pragma once
#include <string>
#include <vector>

#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

struct Trust {
  double expected_error = 0;         ///< mean relative error to expect of a step time
  std::vector<std::string> outside;  ///< one sentence each; empty: inside what was validated
};

/// The validated envelope (preset validation/envelope), read once for many plans.
struct Envelope {
  double devices = 0, expert_ranks = 0, sequence = 0, stages = 0;  ///< largest values validated
  double moe_factor = 1, outside_factor = 1, largest_error = 0;
  std::vector<std::string> schedules;
};
Envelope read_envelope();
Trust trust_in(const Envelope&, const Architecture&, const Cluster&, const Plan&, std::int64_t sequence);

/// From the device's and stack's stated errors, wider for MoE models and outside the envelope (preset validation/envelope).
Trust trust_in(const Architecture&, const Cluster&, const Plan&, std::int64_t sequence);

}  // namespace tessera
