// Ids, tables and units: round trips, exact counts against an enumeration and against the published size of the
// paper's space, and no plan twice.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "search/legal_count.hpp"
#include "search/legality.hpp"
#include "study_fixture.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using namespace tessera::fixture;

namespace {

/// Legal plans per architecture, sorted.
std::vector<std::uint64_t> legal_by_architecture(const Space& space) {
  LegalCount count(space, 0);
  count.set_batch(0);
  std::vector<std::uint64_t> out;
  for (std::uint32_t a = 0; a < space.study().architectures.size(); ++a) out.push_back(count.architecture(a));
  std::sort(out.begin(), out.end());
  return out;
}

std::uint64_t total(const std::vector<std::uint64_t>& v) {
  std::uint64_t sum = 0;
  for (const auto n : v) sum += n;
  return sum;
}

double median(const std::vector<std::uint64_t>& v) {
  return 0.5 * (static_cast<double>(v[(v.size() - 1) / 2]) + static_cast<double>(v[v.size() / 2]));
}

auto plan_key(const Digits& d, const Plan& p) {
  return std::make_tuple(d.cluster, d.architecture, p.batch, p.tp, p.cp, p.pp, p.dp, p.ep, p.etp, p.virtual_stages, p.micro_batch,
                         p.zero, p.recompute, p.schedule, p.precision);
}

}  // namespace

TEST_CASE("decode and encode are inverse on every id", "[space]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 10; ++round) {
    const Study s = random_study(random);
    const Space space(s);
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t id = random() % space.points();
      REQUIRE(space.encode(space.decode(id)) == id);
    }
    for (const std::uint64_t id : {std::uint64_t{0}, space.points() - 1}) REQUIRE(space.encode(space.decode(id)) == id);
  }
}

TEST_CASE("no two legal ids are the same plan, and they are counted exactly", "[space]") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 12; ++round) {
    const Study s = random_study(random);
    const Space space(s);
    std::set<decltype(plan_key(Digits{}, Plan{}))> seen;
    std::uint64_t legal = 0;
    for (std::uint64_t id = 0; id < space.points(); ++id) {
      const Digits d = space.decode(id);
      if (space.legality(d) != Reason::none) continue;
      ++legal;
      Plan p = space.plan(d);
      // The canonical plan: what differs in nothing that is computed is the same.
      const bool bare = p.dp * p.cp == 1 && p.edp() == 1;
      if (bare) p.zero = 0;
      if (!space.architecture(d).is_moe() && p.recompute == Recompute::selective) p.recompute = Recompute::none;
      if (p.pp == 1) {
        p.schedule = Schedule::one_f_one_b;
        p.virtual_stages = 1;
      }
      REQUIRE(seen.insert(plan_key(d, p)).second);
    }
    CHECK(space.legal() == legal);
  }
}

TEST_CASE("units cover the space without gap and know their legal ids", "[space]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 6; ++round) {
    const Study s = random_study(random);
    const Space space(s);
    std::uint64_t next = 0, legal = 0;
    for (std::uint64_t u = 0; u < space.units(); ++u) {
      REQUIRE(space.unit(u).first == next);
      REQUIRE(space.unit(u).last > next);
      next = space.unit(u).last;
      legal += space.unit(u).legal;
      const Digits first = space.decode(space.unit(u).first), last = space.decode(next - 1);
      REQUIRE(first.cluster == last.cluster);
      REQUIRE(first.batch == last.batch);
    }
    CHECK(next == space.points());
    CHECK(legal == space.legal());
  }
}

TEST_CASE("the paper's space has its published size", "[space]") {
  // Plan-space study, table of counts: raw, legal in all, least, median and most per architecture.
  struct Row {
    std::int64_t devices;
    bool folded;
    double raw, legal;
    std::uint64_t least, middle, most;
  };
  for (const Row& row : {Row{64, false, 7.71e6, 2.50e6, 1980, 2160, 2520}, Row{256, false, 1.95e7, 5.13e6, 3456, 4272, 5820},
                         Row{512, false, 2.88e7, 6.79e6, 4208, 5576, 8180}, Row{4096, false, 7.75e7, 1.18e7, 5900, 9176, 17156},
                         Row{64, true, 7.71e6, 5.03e6, 3072, 4464, 5544}, Row{256, true, 1.95e7, 9.77e6, 4608, 8820, 13356},
                         Row{512, true, 2.88e7, 1.24e7, 5360, 10780, 18980}, Row{4096, true, 7.75e7, 1.86e7, 6848, 15408, 36368}}) {
    Study s = study(row.devices);
    add_paper_ladder(s);
    REQUIRE(s.architectures.size() == 1092);
    paper_axes(s);
    s.clusters[0].stack.folding = row.folded;
    const Space space(s);
    const auto counts = legal_by_architecture(space);
    INFO("devices " << row.devices << " folded " << row.folded);
    CHECK(static_cast<double>(space.points()) == Approx(row.raw).epsilon(0.005));
    CHECK(static_cast<double>(total(counts)) == Approx(row.legal).epsilon(0.005));
    CHECK(counts.front() == row.least);
    CHECK(median(counts) == row.middle);
    CHECK(counts.back() == row.most);
  }
}

TEST_CASE("the extended space has its published size", "[space]") {
  struct Row {
    std::int64_t devices;
    bool uneven;
    double legal;
    std::uint64_t least, middle, most;  // 0: not published
  };
  for (const Row& row : {Row{64, false, 3.10e8, 209280, 276224, 358144}, Row{256, false, 7.27e8, 366688, 620480, 895088},
                         Row{512, false, 9.63e8, 424192, 824352, 1319200}, Row{4096, false, 1.47e9, 497664, 1181760, 2748672},
                         Row{256, true, 7.61e8, 0, 678912, 0}}) {
    Study s = study(row.devices);
    add_paper_ladder(s);
    extended_axes(s);
    s.clusters[0].stack.uneven_stages = row.uneven;
    const Space space(s);
    const auto counts = legal_by_architecture(space);
    INFO("devices " << row.devices << " uneven " << row.uneven);
    CHECK(static_cast<double>(space.legal()) == Approx(row.legal).epsilon(0.005));
    CHECK(median(counts) == row.middle);
    if (row.least > 0) {
      CHECK(counts.front() == row.least);
      CHECK(counts.back() == row.most);
      CHECK(space.inner().size() == 640);  // 4 ZeRO x 4 micro-batches x 4 recomputations x 10 variants
    }
  }
}

TEST_CASE("any number of devices has its meshes", "[space]") {
  Study s = study(98304);  // 2^15 * 3
  add(s, ladder({.q = 12, .experts = 96, .top_k = 2, .split = 4}));
  paper_axes(s);
  const Space space(s);
  CHECK(space.meshes(0).size() == 816 * 4);  // C(15+3, 3) * C(1+3, 3)
  std::set<std::tuple<int, int, int, int>> seen;
  for (const Mesh& m : space.meshes(0)) {
    REQUIRE(std::int64_t{1} * m.pp * m.cp * m.tp * m.dp == 98304);
    REQUIRE(seen.insert({m.pp, m.cp, m.tp, m.dp}).second);
  }
}

TEST_CASE("axes: order and repeats do not matter, forbidden values go, an empty axis is refused", "[space]") {
  Study s = study(16);
  add(s, ladder({.q = 4, .experts = 8, .top_k = 2, .split = 2}));
  paper_axes(s);
  const std::uint64_t points = Space(s).points();
  s.plan.micro_batch.values = {{4, 1, 2, 2, 1}};
  CHECK(Space(s).points() == points);
  s.plan.micro_batch.forbidden = {2};
  CHECK(Space(s).points() == points / 3 * 2);
  s.plan.micro_batch.forbidden = {1, 2, 4};
  CHECK_THROWS_AS(Space(s), InputError);
  s.plan.micro_batch.forbidden = {};
  s.plan.tp.values = {{3}};  // does not divide 16
  CHECK_THROWS_AS(Space(s), InputError);
  s.plan.tp.values = {};
  s.plan.schedule.values = {{Schedule::interleaved}};
  CHECK_THROWS_AS(Space(s), InputError);  // with one virtual stage there is nothing to interleave
}
