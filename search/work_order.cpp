#include "search/work_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/space.hpp"

namespace tessera {

std::vector<std::uint64_t> work_order(std::span<const UnitWork> work, std::vector<std::uint64_t> units) {
  struct Ranked {
    int size;
    std::uint64_t unit;
  };
  std::vector<Ranked> ranked;
  ranked.reserve(units.size());
  for (std::size_t begin = 0, end = 0; begin < units.size(); begin = end) {
    double largest = std::numeric_limits<double>::min();
    for (; end < units.size() && work[units[end]].tables == work[units[begin]].tables; ++end) largest = std::max(largest, work[units[end]].work);
    for (std::size_t i = begin; i < end; ++i) ranked.push_back({std::ilogb(largest), units[i]});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.size > b.size; });
  std::transform(ranked.begin(), ranked.end(), units.begin(), [](const Ranked& r) { return r.unit; });
  return units;
}

std::vector<UnitWork> expected_work(const Space& space) {
  std::vector<UnitWork> work;
  work.reserve(space.units());
  std::uint64_t tables = 0;
  Digits before;
  for (std::uint64_t u = 0; u < space.units(); ++u) {
    const Digits d = space.decode(space.unit(u).first);
    if (d.cluster != before.cluster || d.batch != before.batch || d.architecture != before.architecture) ++tables;
    before = d;
    work.push_back({static_cast<double>(space.unit(u).legal), tables});
  }
  return work;
}

std::uint64_t units_in_hand(std::uint64_t left, int ranks, int threads) {
  const auto all = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(threads);
  return static_cast<std::uint64_t>(threads) + (left > 2 * all ? 1 : 0);
}

}  // namespace tessera
