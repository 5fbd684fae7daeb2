// How evenly units spread over ranks: the real order and the real rule of fetching, on a clock of the test's own.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "search/dry_run_context.hpp"
#include "search/work_order.hpp"
#include "study_fixture.hpp"

using namespace tessera;

namespace {

constexpr std::size_t kUnitsPerRank = 64;

/// A machine that costs nothing: what is left is the balance of the distribution.
MachineModel free_machine() { return {0, 0, 0, 0, 2.0, 0}; }

/// Clustered costs: neighbours are alike, clusters differ up to eightfold, the costly ones lie where `shape` says.
std::vector<double> clustered(std::size_t units, int shape, std::mt19937_64& random) {
  std::vector<double> cost(units);
  std::uniform_real_distribution<double> noise(0.8, 1.25), any(0, 1);
  const std::size_t cluster = std::max<std::size_t>(1, units / 13);
  double level = 1;
  for (std::size_t u = 0; u < units; ++u) {
    const double at = static_cast<double>(u) / static_cast<double>(units);
    if (shape == 0) level = at > 0.9 ? 8 : 1;                          // all of the costly ones last
    else if (shape == 1) level = std::exp2(3 * at);                    // growing
    else if (u % cluster == 0) level = std::exp2(3 * any(random));     // anywhere
    cost[u] = level * noise(random);
  }
  return cost;
}

/// Each unit with tables of its own.
std::vector<UnitWork> alone(const std::vector<double>& cost) {
  std::vector<UnitWork> out;
  for (const double c : cost) out.push_back({c, out.size()});
  return out;
}

}  // namespace

TEST_CASE("the order of work is a permutation, the larger first, neighbours together", "[distribution]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    const auto cost = clustered(1 + random() % 3000, round % 3, random);
    std::vector<std::uint64_t> units;
    for (std::uint64_t u = 0; u < cost.size(); ++u)
      if (random() % 4) units.push_back(u);  // a resumed sweep has some of them
    const auto order = work_order(alone(cost), units);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == units);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const int before = std::ilogb(cost[order[i - 1]]), here = std::ilogb(cost[order[i]]);
      REQUIRE(before >= here);
      if (before == here) REQUIRE(order[i - 1] < order[i]);
    }
  }
  CHECK(work_order(alone({0, 0, 3}), {0, 1, 2}) == std::vector<std::uint64_t>{2, 0, 1});
  // Units 1 to 3 share tables: the small one stays with the others.
  CHECK(work_order(std::vector<UnitWork>{{2, 0}, {8, 1}, {1, 1}, {8, 1}, {4, 2}}, {0, 1, 2, 3, 4}) == std::vector<std::uint64_t>{1, 2, 3, 4, 0});
  CHECK(work_order({}, {}).empty());
}

TEST_CASE("a rank fetches ahead while there is plenty, and not at the end", "[distribution]") {
  CHECK(units_in_hand(1000, 4, 2) == 3);
  CHECK(units_in_hand(17, 4, 2) == 3);
  CHECK(units_in_hand(16, 4, 2) == 2);
  CHECK(units_in_hand(0, 1, 1) == 1);
}

TEST_CASE("clustered costs spread within 3 % of ideal at 64 units a rank", "[distribution]") {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> error(0.75, 1.33);
  for (const int ranks : {2, 3, 16, 64, 250, 1024})
    for (const int shape : {0, 1, 2}) {
      const auto cost = clustered(kUnitsPerRank * static_cast<std::size_t>(ranks), shape, random);
      auto expected = cost;  // what the order knows of the costs is wrong by up to a third
      for (double& e : expected) e *= error(random);
      DryRunContext context(ranks);
      const Rehearsal r = rehearse(context, cost, alone(expected), 1, free_machine());
      INFO("ranks " << ranks << ", shape " << shape << ", longest unit " << r.longest_unit / r.ideal_seconds << " of ideal");
      CHECK(r.seconds / r.ideal_seconds - 1 <= 0.03);
      CHECK(r.busy_seconds == Approx(std::accumulate(cost.begin(), cost.end(), 0.0)));
    }
}

TEST_CASE("the units of a real space spread within 3 % of ideal at 64 units a rank", "[distribution]") {
  Study s = fixture::study(256);
  s.clusters.push_back(fixture::cluster(512));
  fixture::add_paper_ladder(s);
  fixture::extended_axes(s);
  const Space space(s);
  const auto work = expected_work(space);
  REQUIRE(work.size() == space.units());
  double sum = 0;
  for (const UnitWork& unit : work) sum += unit.work;
  CHECK(sum == Approx(static_cast<double>(space.legal())));
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> error(0.75, 1.33);
  std::vector<double> cost;  // a legal plan costs more in one place than in another
  for (const UnitWork& unit : work) cost.push_back(unit.work * error(random));
  const int ranks = static_cast<int>(space.units() / kUnitsPerRank);
  REQUIRE(ranks >= 8);
  DryRunContext context(ranks);
  const Rehearsal r = rehearse(context, cost, work, 1, free_machine());
  INFO(space.units() << " units on " << ranks << " ranks");
  CHECK(r.seconds / r.ideal_seconds - 1 <= 0.03);
}
