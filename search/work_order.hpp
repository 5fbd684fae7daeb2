// In which order units are given out, and how far ahead a rank fetches: what decides how evenly a sweep ends.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class Space;

/// What is known of a unit before it is run.
struct UnitWork {
  double work = 0;           ///< expected, in any unit of measure, >= 0
  std::uint64_t tables = 0;  ///< neighbouring units of equal value share their architecture's tables
};

/// The units in the order in which they are given out: the larger first, so that what the last ranks wait for is small
/// (list scheduling by longest time first, Graham 1969: at most 4/3 of the best, and near 1 with many units a rank).
/// Sizes are compared by powers of two only, and units that share tables stay together, by the largest of them.
/// `units`: ascending indices into `work`.
std::vector<std::uint64_t> work_order(std::span<const UnitWork> work, std::vector<std::uint64_t> units);

/// Of every unit of a space: its legal plans, and which architecture's it is.
std::vector<UnitWork> expected_work(const Space&);

/// Units that a rank holds, running ones included: one more than threads, so that a thread that ends finds the next;
/// towards the end as many as threads, since a unit that waits here would be running elsewhere. `left`: units not yet given out.
std::uint64_t units_in_hand(std::uint64_t left, int ranks, int threads);

}  // namespace tessera
