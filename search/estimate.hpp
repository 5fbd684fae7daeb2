// How long a sweep will take, from a few of its units.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

struct UnitCosts {
  std::vector<double> unit_seconds;  ///< of every unit on one thread: by the line, off it as the nearest measured one
  std::uint64_t measured = 0;        ///< units that were run
  double core_seconds = 0;           ///< sum of unit_seconds [s]
  double evaluations = 0;            ///< expected over all units
  double rows = 0;                   ///< expected recorded evaluations
};

/// Runs units spread over the space on this thread until `budget_seconds` are spent (at least one); the others are taken to
/// cost what a least-squares line says for their number of legal plans. `look`: called with each result.
UnitCosts measure_units(const Space&, double budget_seconds, const std::function<void(const UnitResult&)>& look = {});

}  // namespace tessera
