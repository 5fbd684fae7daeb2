#include "search/work_order.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/space.hpp"

namespace tessera {

std::vector<std::uint64_t> work_order(std::span<const double> weight, std::vector<std::uint64_t> units) {
  const auto size = [&](std::uint64_t unit) { return std::ilogb(std::max(weight[unit], 1e-300)); };
  std::sort(units.begin(), units.end(), [&](std::uint64_t a, std::uint64_t b) {
    const int of_a = size(a), of_b = size(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  return units;
}

std::vector<double> expected_work(const Space& space) {
  std::vector<double> weight;
  weight.reserve(space.units());
  for (std::uint64_t u = 0; u < space.units(); ++u) weight.push_back(static_cast<double>(space.unit(u).legal));
  return weight;
}

std::uint64_t units_in_hand(std::uint64_t left, int ranks, int threads) {
  const auto all = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(threads);
  return static_cast<std::uint64_t>(threads) + (left > 2 * all ? 1 : 0);
}

}  // namespace tessera
