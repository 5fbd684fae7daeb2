// Budget tables: made from a small study that the test sweeps itself with the real cost model and the joint
// law.
#include "io/budget_table.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "budget_fixture.hpp"
#include "io/budget_table_parts.hpp"
#include "io/trust.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

using namespace tessera;
using namespace fixture;

namespace {

double sum_of_probabilities(const Decision& d) {
  double sum = 0;
  for (const auto& v : d.verdicts) sum += v.best;
  return sum;
}

}  // namespace

TEST_CASE("the nominal ranking of a table is the one of the sweep", "[table]") {
  const BudgetTable t = table();
  for (const std::int64_t nodes : {32, 64}) {
    const BudgetAnswer a = answer_budget(t, "", nodes, 20, false);
    std::vector<const TopRow*> rows;
    for (const TopRow& row : swept().result.top)
      if (swept().results.clusters[row.cluster].nodes == nodes) rows.push_back(&row);
    REQUIRE(rows.size() > 3);
    REQUIRE(a.candidates.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(a.candidates[i].architecture == rows[i]->architecture);
      CHECK(a.candidates[i].plan == rows[i]->plan);
      CHECK(a.candidates[i].tokens == Approx(rows[i]->tokens).epsilon(1e-12));
      CHECK(a.candidates[i].loss == Approx(rows[i]->loss).epsilon(1e-12));
      CHECK(a.candidates[i].goodput == 1.0);
    }
  }
}

TEST_CASE("the choice of the paper's window has a regret, the probabilities sum to one", "[table]") {
  const BudgetAnswer a = answer_budget(table(), "", 32, 20);
  REQUIRE(a.has_certainty);
  CHECK(a.device_hours == 256 * 20 * 24);
  CHECK(sum_of_probabilities(a.decision) == Approx(1).epsilon(1e-12));
  const CandidateVerdict& choice = a.decision.verdicts[a.decision.choice];
  CHECK(choice.regret > 0);
  for (const auto& v : a.decision.verdicts) CHECK(choice.regret <= v.regret);
  CHECK(a.decision.near_ties >= 1);
  CHECK(choice.tied);
  for (std::size_t i = 1; i < a.candidates.size(); ++i) CHECK(a.candidates[0].loss <= a.candidates[i].loss);
  // What explain states of these plans: the stack's error, wider for MoE models and for what no run has shown.
  std::vector<double> stated;
  for (const auto& c : a.candidates)
    stated.push_back(trust_in(swept().study.architectures[c.architecture], swept().study.clusters[0], c.plan, 2048).expected_error);
  CHECK(a.time_error >= 0.12);
  CHECK(a.time_error >= *std::min_element(stated.begin(), stated.end()));
  CHECK(a.time_error <= *std::max_element(stated.begin(), stated.end()));
  // The law's extrapolation sd is the larger part of the loss' own (0.013 nats at the paper's optimum).
  CHECK(a.loss_sd > 0.008);
  CHECK(a.loss_sd < 0.03);
  // One source alone is surer than all of them together.
  CHECK(a.law_only.regret < choice.regret);
  CHECK(a.time_only.regret < choice.regret);
  CHECK(a.tied_active.low <= a.tied_active.high);
  CHECK(a.tokens_multiple > 10);
  CHECK(!a.warnings.empty());
}

TEST_CASE("a window's tokens follow the closed form, without and with the cap", "[table]") {
  const BudgetTable t = table();
  const BudgetAnswer a = answer_budget(t, "", 32, 12.5, false);
  for (const auto& c : a.candidates) {
    const auto active = static_cast<double>(t.counts[c.architecture].non_embedding_active);
    const double window = t.clusters[0].peak * 256 * 12.5 * kSecondsPerDay * c.mfu / (6 * active);
    CHECK(c.window_tokens == Approx(window).epsilon(1e-12));
    CHECK(c.tokens == Approx(std::min(window, 150 * active)).epsilon(1e-12));
    CHECK(c.tokens >= 40 * active);
  }
}

TEST_CASE("more days never raise the loss of an architecture or of the best", "[table]") {
  const BudgetTable t = table();
  double best = 1e9;
  std::vector<double> losses(t.architectures.size(), 1e9);
  bool capped = false;
  for (const double days : {10.0, 15.0, 20.0, 30.0, 40.0, 120.0}) {
    const BudgetAnswer a = answer_budget(t, "", 32, days, false);
    REQUIRE(!a.candidates.empty());
    CHECK(a.candidates[0].loss <= best);
    best = a.candidates[0].loss;
    for (const auto& c : a.candidates) {
      CHECK(c.loss <= losses[c.architecture]);
      losses[c.architecture] = c.loss;
      capped = capped || c.cut;
    }
  }
  CHECK(capped);
}

TEST_CASE("without the cap the answer is another once the cap binds", "[table]") {
  const BudgetAnswer bound = answer_budget(table(), "", 32, 120);
  REQUIRE(bound.without_cap);
  CHECK(bound.without_cap->loss < bound.candidates[bound.choice()].loss);
  const BudgetAnswer loose = answer_budget(table(), "", 32, 10);
  CHECK(loose.without_cap->loss == Approx(loose.candidates[loose.choice()].loss).epsilon(1e-12));
}

TEST_CASE("a table read back answers with the same bits", "[table]") {
  const BudgetTable t = table();
  const std::string text = table_to_json(t).dump();
  const BudgetTable back = table_from_json(text, "t.json");
  CHECK(table_to_json(back).dump() == text);
  CHECK(back.architectures == t.architectures);
  check_equal(answer_budget(t, "", 32, 20), answer_budget(back, "", 32, 20));
  check_equal(answer_budget(t, "", 40, 33.3), answer_budget(back, "", 40, 33.3));
}

TEST_CASE("between node counts MFU is linear in log(nodes), and the answer says so", "[table]") {
  const BudgetTable t = table();
  const BudgetAnswer low = answer_budget(t, "", 32, 20, false), high = answer_budget(t, "", 64, 20, false);
  CHECK(!low.interpolated);
  const BudgetAnswer middle = answer_budget(t, "", 45, 20, false);
  CHECK(middle.interpolated);
  CHECK(middle.devices == 360);
  CHECK(middle.low_nodes == 32);
  CHECK(middle.high_nodes == 64);
  CHECK(middle.plan_nodes == 32);
  const double share = std::log(45.0 / 32) / std::log(2.0);
  const auto place = budgets::find_place(t, "", 45);
  CHECK(place.share == Approx(share).epsilon(1e-12));
  std::size_t seen = 0;
  for (const auto& c : budgets::candidates_at(t, place, 360)) {
    double ends[2] = {0, 0};
    for (const auto& e : t.candidates)
      if (e.architecture == c.architecture && e.plan.batch == c.plan.batch) ends[e.cluster] = e.mfu;
    CHECK(c.mfu == Approx(ends[0] + share * (ends[1] - ends[0])).epsilon(1e-12));
    CHECK(c.step_seconds ==
          Approx(6.0 * static_cast<double>(t.counts[c.architecture].non_embedding_active) *
                 static_cast<double>(c.plan.batch * 2048) / (c.mfu * 360 * t.clusters[0].peak))
              .epsilon(1e-12));
    ++seen;
  }
  CHECK(seen > 3);
  CHECK(middle.candidates[0].loss < low.candidates[0].loss);
  CHECK(middle.candidates[0].loss > high.candidates[0].loss);
}

TEST_CASE("goodput below one takes tokens in proportion", "[table]") {
  Study half = swept().study;
  half.goodput.constant = 0.5;
  half.token_bounds = {};
  Study whole = swept().study;
  whole.token_bounds = {};
  const BudgetAnswer a =
      answer_budget(make_budget_table(swept().results, half, {1, 1, 1}), "", 32, 20, false);
  const BudgetAnswer b =
      answer_budget(make_budget_table(swept().results, whole, {1, 1, 1}), "", 32, 10, false);
  REQUIRE(a.candidates.size() == b.candidates.size());
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    CHECK(a.candidates[i].goodput == 0.5);
    CHECK(a.candidates[i].tokens == Approx(b.candidates[i].tokens).epsilon(1e-12));
  }
}

TEST_CASE("what turns tokens into effective tokens is in the file", "[table]") {
  Study s = swept().study;
  s.token_value.critical_batch = CriticalBatch{
      .name = "x", .source = "s", .evidence = "e", .note = "n", .coefficient = 1e3, .exponent = 0.25};
  s.token_value.critical_scale = 0.5;
  s.token_value.repetition =
      Repetition{.name = "r", .source = "s", .evidence = "e", .note = "n", .epochs = 15.4};
  s.token_value.unique_tokens = 1e11;
  const BudgetTable t = make_budget_table(swept().results, s, {8, 1, 1});
  const BudgetTable back = table_from_json(table_to_json(t).dump(), "t.json");
  const BudgetAnswer a = answer_budget(t, "", 32, 20), b = answer_budget(back, "", 32, 20);
  check_equal(a, b);
  CHECK(a.candidates[0].loss > answer_budget(table(), "", 32, 20, false).candidates[0].loss);
}

TEST_CASE("a law with fewer members, or none, is drawn as often", "[table]") {
  Study s = swept().study;
  const auto members = ensemble_members(s.law, 3, 1);
  s.law.level_slope.reset();
  const BudgetTable none = make_budget_table(swept().results, s, {64, 2, 1});
  CHECK(law_member_count(none) == 1);
  const BudgetAnswer a = answer_budget(none, "", 32, 20);
  CHECK(a.draws == 128);
  CHECK(a.law_only.probability == 1);  // its own error is unknown, not nothing: the text says so
  CHECK(a.law_only.regret == 0);
  CHECK(a.time_only.regret > 0);
  s.law.members = members;
  const BudgetTable few = make_budget_table(swept().results, s, {64, 2, 1});
  CHECK(law_member_count(few) == 3);
  CHECK(answer_budget(few, "", 32, 20).draws == 128);
  CHECK(law_member_count(table()) == 64);
}

TEST_CASE("what cannot be answered is refused with what there is", "[table]") {
  const BudgetTable t = table();
  CHECK_THROWS_WITH(answer_budget(t, "", 16, 20), Catch::Contains("32, 64"));
  CHECK_THROWS_AS(answer_budget(t, "", 65, 20), InputError);
  CHECK_THROWS_AS(answer_budget(t, "", 32, 0), InputError);
  CHECK_THROWS_AS(answer_budget(t, "", 32, -1), InputError);
  CHECK_THROWS_AS(answer_budget(t, "", 32, std::nan("")), InputError);
  CHECK_THROWS_WITH(answer_budget(t, "h100", 32, 20), Catch::Contains("h100"));
  CHECK_THROWS_AS(make_budget_table(swept().results, swept().study, {0, 8, 1}), InputError);
  CHECK_THROWS_AS(make_budget_table(swept().results, swept().study, {512, 1 << 20, 1}), InputError);
  Study other = swept().study;
  other.clusters.pop_back();
  CHECK_THROWS_AS(make_budget_table(swept().results, other, {}), InputError);
  // A window too short for any architecture's lower bound: no candidates, all counted.
  const BudgetAnswer none = answer_budget(t, "", 32, 0.01);
  CHECK(none.candidates.empty());
  CHECK(!none.has_certainty);
  CHECK(none.too_few_tokens + none.nothing_fits == t.architectures.size());
}

TEST_CASE("a file that is no table is refused", "[table]") {
  CHECK_THROWS_WITH(table_from_json("[1, 2", "x.json"),
                    Catch::Contains("x.json") && Catch::Contains("not JSON"));
  CHECK_THROWS_AS(table_from_json("{}", "x.json"), InputError);
  CHECK_THROWS_AS(table_from_json(R"({"format": "other"})", "x.json"), InputError);
  auto json = table_to_json(table());
  for (const char* key : {"law", "clusters", "architectures", "candidates", "draws", "token_value"}) {
    auto damaged = json;
    damaged.erase(key);
    CHECK_THROWS_AS(table_from_json(damaged.dump(), "x.json"), InputError);
  }
  json["candidates"][0][6] = nullptr;  // how JSON holds NaN
  CHECK_THROWS_AS(table_from_json(json.dump(), "x.json"), InputError);
  json["candidates"][0][6] = 0.1;
  json["candidates"][0][1] = 100000;
  CHECK_THROWS_AS(table_from_json(json.dump(), "x.json"), InputError);
}
