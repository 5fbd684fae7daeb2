// Budget tables: made from a small study that the test sweeps itself with the real cost model and the joint
// law.
#include "io/budget_table.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "io/budget_file.hpp"
#include "io/budget_reader.hpp"
#include "io/budget_table_parts.hpp"
#include "io/file_system.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "io/study_reader.hpp"
#include "results_fixture.hpp"
#include "search/serial_context.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

using namespace tessera;

namespace {

/// The paper's window on a corner of its ladder, at two sizes.
const char* const kStudy = R"(
title = "Budgets"
[cluster]
preset = "p6-b200"
nodes = [32, 64]
[window]
days = [20]
[batch]
global = [512, 1024]
sequence = 2048
[architecture]
q = [10, 12]
experts = [32, 48, 96]
top_k = [2]
split = [2, 4]
[plan]
tp = [1]
cp = [1]
etp = [1]
virtual_stages = [1]
micro_batch = [4]
recompute = ["selective", "full"]
schedule = ["1f1b"]
folding = false
[law]
name = "mosaic"
tokens_per_active_parameter = [40, 150]
[output]
record = "best"
)";

struct Swept {
  Study study;
  SweepResult result;
  Results results;

  explicit Swept(const std::string& text) : study(read_study_text(text, "test.toml")) {
    const Space space(study);
    const fixture::TemporaryFolder folder;
    OutputFolder output(folder.path(), FolderMode::fresh, study, space);
    SegmentSink sink(folder.path(), 0, study.record);
    SerialContext context;
    result = sweep(study, space, context, sink, {});
    sink.flush();
    output.finish(study, space, result, 1);
    results = ResultsReader(output.results_path()).results();
  }
};

const Swept& swept() {
  static const Swept once(kStudy);
  return once;
}

BudgetTable table(DrawSettings draws = {64, 2, 1}) {
  return make_budget_table(swept().results, swept().study, draws);
}

double sum_of_probabilities(const Decision& d) {
  double sum = 0;
  for (const auto& v : d.verdicts) sum += v.best;
  return sum;
}

void check_equal(const BudgetAnswer& a, const BudgetAnswer& b) {
  REQUIRE(a.candidates.size() == b.candidates.size());
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    CHECK(a.candidates[i].architecture == b.candidates[i].architecture);
    CHECK(a.candidates[i].plan == b.candidates[i].plan);
    CHECK(a.candidates[i].tokens == b.candidates[i].tokens);  // the bits
    CHECK(a.candidates[i].loss == b.candidates[i].loss);
  }
  REQUIRE(a.considered == b.considered);
  CHECK(a.decision.choice == b.decision.choice);
  CHECK(a.decision.near_ties == b.decision.near_ties);
  for (std::size_t i = 0; i < a.considered; ++i) {
    CHECK(a.decision.verdicts[i].regret == b.decision.verdicts[i].regret);
    CHECK(a.decision.verdicts[i].best == b.decision.verdicts[i].best);
  }
  CHECK(a.compressed.regret == b.compressed.regret);
  CHECK(a.without_cap->regret == b.without_cap->regret);
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
  CHECK(a.time_error == Approx(0.12));
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

/// Answers of every swept size at two windows, one of them too short for anything.
std::vector<BudgetAnswer> answers(const BudgetTable& t) {
  std::vector<BudgetAnswer> out;
  for (const std::int64_t nodes : {32, 40, 64})
    for (const double days : {20.0, 0.01}) out.push_back(answer_budget(t, "", nodes, days));
  return out;
}

TEST_CASE("an HDF5 table answers with the bits of the table it was made of", "[table]") {
  const BudgetTable t = table();
  const fixture::TemporaryFolder folder;
  const std::string path = folder.path() + "/t.h5";
  write_budget_hdf5(path, t, answers(t), {});
  const BudgetFile file(path);
  CHECK(table_to_json(file.table()).dump() == table_to_json(t).dump());
  CHECK(file.table().architectures == t.architectures);
  for (const std::int64_t nodes : {32, 40, 64}) {
    const BudgetAnswer drawn = answer_budget(t, "", nodes, 20), stored = file.answer("", nodes, 20);
    CHECK(stored.stored);
    check_equal(drawn, stored);
    CHECK(drawn.decision.ninety_set == stored.decision.ninety_set);
    CHECK(drawn.decision.optimism == stored.decision.optimism);
    CHECK(drawn.loss_sd == stored.loss_sd);
    CHECK(drawn.regret_in_hours == stored.regret_in_hours);
    CHECK(drawn.draws == stored.draws);
    CHECK(drawn.law_only.architecture == stored.law_only.architecture);
    CHECK(drawn.time_only.regret == stored.time_only.regret);
    CHECK(drawn.form_only.near_ties == stored.form_only.near_ties);
    CHECK(drawn.tied_experts.high == stored.tied_experts.high);
    for (std::size_t i = 0; i < drawn.considered; ++i)
      CHECK(drawn.decision.verdicts[i].paired_high == stored.decision.verdicts[i].paired_high);
  }
  const BudgetAnswer other = file.answer("", 32, 21);
  CHECK(!other.stored);
  check_equal(other, answer_budget(t, "", 32, 21));
  CHECK(!file.answer("", 32, 20, false).has_certainty);
  CHECK(file.answer("", 32, 0.01).candidates.empty());
}

TEST_CASE("every dataset of an HDF5 table has a unit and a description", "[table]") {
  const BudgetTable t = table();
  const fixture::TemporaryFolder folder;
  const std::string path = folder.path() + "/t.h5";
  write_budget_hdf5(path, t, answers(t), {.usd = parse_rate("2.5", "--price"), .joules = {}});
  const Hdf5Reader file(path);
  std::size_t seen = 0;
  for (const auto& group : file.children("/")) {
    CHECK(file.has_attribute("/" + group, "description"));
    for (const auto& name : file.children("/" + group)) {
      const std::string dataset = fmt::format("/{}/{}", group, name);
      INFO(dataset);
      CHECK(!file.text_attribute(dataset, "unit").empty());
      CHECK(!file.text_attribute(dataset, "description").empty());
      ++seen;
    }
  }
  CHECK(seen > 150);
  CHECK(file.rows("/rows/nodes") == 6);
  CHECK(file.numbers("/rows/usd")[0] == 2.5 * 256 * 20 * 24);
  CHECK(file.texts("/rows/name")[1].empty());  // nothing to train in so short a window
  CHECK(file.rows("/by_split/low") > 4);
}

TEST_CASE("an HDF5 file that is no whole table is refused with what to do", "[table]") {
  const BudgetTable t = table();
  const fixture::TemporaryFolder folder;
  const std::string path = folder.path() + "/t.h5", other = folder.path() + "/other.h5";
  write_budget_hdf5(path, t, answers(t), {});
  CHECK_THROWS_WITH(BudgetFile(other), Catch::Contains("no such file"));
  {
    Hdf5Writer file(other);
    file.group("/table", "x");
    file.close();
  }
  CHECK_THROWS_WITH(BudgetFile(other),
                    Catch::Contains("no table of tessera") && Catch::Contains("tessera table"));
  {
    Hdf5Writer file(other);
    file.group("/table", "x");
    file.attribute("/table", "format", std::int64_t{99});
    file.close();
  }
  CHECK_THROWS_WITH(BudgetFile(other), Catch::Contains("99"));
  {
    Hdf5Writer file(other);
    file.group("/table", "x");
    file.attribute("/table", "format", std::int64_t{1});
    file.close();
  }
  CHECK_THROWS_WITH(BudgetFile(other), Catch::Contains("damaged") && Catch::Contains("/table/settings"));
  {
    Hdf5Writer file(other);
    file.group("/study", "x");
    file.attribute("/study", "format", std::int64_t{1});
    file.close();
  }
  CHECK_THROWS_WITH(BudgetFile(other), Catch::Contains("results of a sweep"));
  // Cut short, and a byte changed at many places: an error of input, or an answer, never anything else.
  const std::string whole = read_text(path);
  replace_file(other, whole.substr(0, whole.size() / 2));
  CHECK_THROWS_AS(BudgetFile(other), InputError);
  std::size_t refused = 0;
  for (std::size_t at = 20; at < whole.size(); at += whole.size() / 150) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    replace_file(other, damaged);
    try {
      BudgetFile(other).answer("", 32, 20);
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("classes hold the best of each split factor and band, and share out P(best)", "[table]") {
  const BudgetTable t = table();
  const BudgetAnswer a = answer_budget(t, "", 32, 20);
  for (const auto& classes : {best_by_split(t, a), best_by_sparsity(t, a)}) {
    REQUIRE(classes.size() > 1);
    double sum = 0;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      sum += classes[i].probability;
      if (i > 0) CHECK(classes[i - 1].low < classes[i].low);
    }
    CHECK(sum == Approx(1).epsilon(1e-12));
    CHECK(std::any_of(classes.begin(), classes.end(), [](const auto& c) { return c.candidate == 0; }));
  }
  for (const auto& c : best_by_split(t, a))
    for (const auto& other : a.candidates)
      if (t.architectures[other.architecture].split == c.low)
        CHECK(other.loss >= a.candidates[c.candidate].loss);
}

TEST_CASE("money, energy and device-hours buy windows", "[table]") {
  const DeviceHours hours{.usd = parse_rate("b200=4,h100=2", "--price"),
                          .joules = parse_rate("7.2e6", "--joules")};
  const DeviceHour b200 = device_hour(hours, "p6-b200", "b200");
  CHECK(*b200.usd == 4);
  CHECK(!device_hour(hours, "dgx-a100", "a100-80").usd);
  CHECK(budget_days(BudgetUnit::usd, 4.0 * 256 * 24 * 20, 256, b200, "p6-b200") == Approx(20));
  CHECK(budget_days(BudgetUnit::mwh, 2e-3 * 256 * 24 * 20, 256, b200, "p6-b200") == Approx(20));
  CHECK(budget_days(BudgetUnit::device_hours, 256 * 24 * 20, 256, b200, "p6-b200") == Approx(20));
  CHECK_THROWS_WITH(budget_days(BudgetUnit::usd, 1, 8, {}, "dgx-a100"), Catch::Contains("--price dgx-a100="));
  const DeviceHour preset = device_hour(
      {.usd = parse_rate("preset", "--price"), .joules = parse_rate("preset", "--joules")}, "x", "h100");
  CHECK(*preset.usd == read_price("h100").usd_per_device_hour);
  CHECK(*preset.joules == Approx(energy_kwh(read_power("h100"), 1) * 3.6e6));
  REQUIRE(preset.notes.size() == 2);
  CHECK_THAT(preset.notes[0], Catch::Contains("2026"));
  for (const char* bad :
       {"", "x", "-1", "0", "nan", "b200=", "1,2", "b200=1,b200=2", "preset,3", "b200", "preset,b200"}) {
    INFO(bad);
    if (*bad == '\0')
      CHECK(!parse_rate(bad, "--price").given());
    else
      CHECK_THROWS_AS(parse_rate(bad, "--price"), InputError);
  }
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
