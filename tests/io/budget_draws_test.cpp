// The shared draws of a budget against simulate() and decide(), one assumption at a time: the same bits.
#include "io/budget_draws.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "io/budget_reader.hpp"
#include "io/law_reader.hpp"

using namespace tessera;
using budgets::Assumption;
using budgets::SharedDraws;

namespace {

/// Candidates around the paper's optimum; some end at the cap in every draw, some in a few, some in none.
std::vector<Candidate> candidates(const Law& law) {
  std::vector<Candidate> out;
  for (const double split : {1.0, 2.0, 2.5, 8.0})
    for (int i = 0; i < 9; ++i) {
      Candidate c;
      c.key = fmt::format("c{} {}", i, split);
      c.point.total = 2e11 * (1 + i);
      c.point.active = 1e10 + 1.5e9 * i;
      c.point.sparsity = 1 - c.point.active / c.point.total;
      c.point.split = split;
      c.point.experts = 16 * (1 + i);
      c.point.active_experts = 2;
      c.active_parameters = c.point.active;
      c.mfu = 0.08 + 0.01 * i;
      c.window_tokens = 1.9e12 - 1e11 * i;
      c.batch_tokens = 2.1e6;
      if (law.convention.size == SizeKind::active) c.point.total = c.point.active;
      out.push_back(c);
    }
  return out;
}

Uncertainty uncertainty(const Law& law) {
  Uncertainty u;
  u.law = law;
  u.seed = 3;
  u.replicates = 3;
  u.members = ensemble_members(law, 40, u.seed);
  u.time = {.common = 0.04, .individual = 0.11};
  u.form.split_offset = law.form_sd;
  u.bounds.high = 150;
  return u;
}

void check_equal(const Decision& a, const Decision& b) {
  CHECK(a.choice == b.choice);
  CHECK(a.near_ties == b.near_ties);
  CHECK(a.ninety_set == b.ninety_set);
  CHECK(a.least_mean == b.least_mean);
  CHECK(a.optimism == b.optimism);
  REQUIRE(a.verdicts.size() == b.verdicts.size());
  for (std::size_t i = 0; i < a.verdicts.size(); ++i) {
    const CandidateVerdict &x = a.verdicts[i], &y = b.verdicts[i];
    CHECK(x.mean == y.mean);
    CHECK(x.regret == y.regret);
    CHECK(x.best == y.best);
    CHECK(x.beats_choice == y.beats_choice);
    CHECK(x.tied == y.tied);
    CHECK(x.paired_low == y.paired_low);
    CHECK(x.paired_median == y.paired_median);
    CHECK(x.paired_high == y.paired_high);
  }
}

/// `plain`: the same assumption as simulate() takes it.
void check_same(SharedDraws& shared, const Assumption& a, const Uncertainty& plain,
                const std::vector<std::size_t>& which) {
  std::vector<Candidate> some;
  for (const std::size_t i : which) some.push_back(shared.candidates()[i]);
  Losses expected = make_losses(plain, some);
  simulate(plain, some, 0, std::max<std::size_t>(1, plain.members.size()), expected);
  const Losses& got = shared.losses(a, which);
  REQUIRE(got.draws == expected.draws);
  CHECK(got.values == expected.values);
  const Decision decision = decide(expected);
  check_equal(budgets::decide_together(got, true), decision);
  const Decision counted = budgets::decide_together(got, false);
  CHECK(counted.near_ties == decision.near_ties);
  for (std::size_t i = 0; i < which.size(); ++i) CHECK(counted.verdicts[i].tied == decision.verdicts[i].tied);
}

void check_every_assumption(const Uncertainty& u) {
  SharedDraws shared(u, candidates(u.law));
  std::vector<std::size_t> some, all;
  for (std::size_t i = 0; i < shared.candidates().size(); ++i) {
    all.push_back(i);
    if (i % 3 != 1) some.insert(some.begin(), i);
  }
  check_same(shared, {}, u, some);  // a part first: what it left out is drawn by the next
  check_same(shared, {}, u, all);
  for (const Sources sources : {Sources{true, false, false},
                                {false, true, false},
                                {false, false, true},
                                {true, true, false},
                                {false, true, true}})
    check_same(shared, {.sources = sources}, only(u, sources), all);
  Uncertainty plain = u;
  plain.bounds.high.reset();
  check_same(shared, {.sources = {}, .capped = false}, plain, all);
  plain = u;
  plain.time.slope = 0.48, plain.time.slope_sd = 0.07, plain.time.anchor = 0.11;
  const Assumption compressed{.sources = {}, .slope = 0.48, .slope_sd = 0.07, .anchor = 0.11};
  check_same(shared, compressed, plain, all);
  plain = only(u, {false, false, false});
  plain.time.slope = 0.48, plain.time.anchor = 0.11;
  Losses expected = make_losses(plain, shared.candidates());
  simulate(plain, shared.candidates(), 0, 1, expected);
  CHECK(shared.expected_losses(compressed) == expected.values);
}

}  // namespace

TEST_CASE("shared draws have the bits of one simulation for each assumption", "[table]") {
  for (const char* name :
       {"mosaic", "besiroglu2024_mle", "kaplan2020_LND"}) {  // level/slope ensemble; none; no data term
    INFO(name);
    check_every_assumption(uncertainty(read_law(name)));
  }
}

TEST_CASE("shared draws count effective tokens", "[table]") {
  Uncertainty u = uncertainty(read_law("mosaic"));
  u.value.critical_batch = read_critical_batch("moe");
  u.value.repetition = read_repetition();
  u.value.unique_tokens = 3e11;
  check_every_assumption(u);
}

TEST_CASE("shared draws without an offset or a time error take fewer draws", "[table]") {
  Uncertainty u = uncertainty(read_law("mosaic"));
  u.form.split_offset = 0;
  check_every_assumption(u);
  u.time = {};
  check_every_assumption(u);
}

TEST_CASE("ties are exact for any number of draws", "[table]") {
  for (std::size_t draws = 1; draws < 60; ++draws) {
    Losses losses{.candidates = 7, .draws = draws, .values = {}};
    for (std::size_t i = 0; i < losses.candidates * draws; ++i)
      losses.values.push_back(normal_draw(7, DrawStream::resample, i / draws, draws, i) + 0.3 * (i / draws));
    const Decision expected = decide(losses), got = budgets::decide_together(losses, false);
    check_equal(budgets::decide_together(losses, true), expected);
    for (std::size_t i = 0; i < losses.candidates; ++i)
      CHECK(got.verdicts[i].tied == expected.verdicts[i].tied);
  }
}
