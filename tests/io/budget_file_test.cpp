// The file of a budget table, what it says of classes, and prices.
#include "io/budget_file.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "budget_fixture.hpp"
#include "io/budget_reader.hpp"
#include "io/budget_rows.hpp"
#include "io/file_system.hpp"
#include "io/hdf5_file.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using namespace fixture;

namespace {

/// Answers of every swept size at two windows, one of them too short for anything.
std::vector<BudgetAnswer> answers(const BudgetTable& t) {
  std::vector<BudgetAnswer> out;
  for (const std::int64_t nodes : {32, 40, 64})
    for (const double days : {20.0, 0.01}) out.push_back(answer_budget(t, "", nodes, days));
  return out;
}

}  // namespace

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
    file.attribute("/table", "format", budgets::kBudgetFormat);
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
