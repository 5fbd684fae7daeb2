// A small study that tests sweep themselves with the real cost model and the joint law, and its budget table.
#pragma once
#include <catch2/catch.hpp>

#include "io/budget_table.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "io/study_reader.hpp"
#include "results_fixture.hpp"
#include "search/serial_context.hpp"

namespace tessera::fixture {

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
precision = "all"
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

inline const Swept& swept() {
  static const Swept once(kStudy);
  return once;
}

inline BudgetTable table(DrawSettings draws = {64, 2, 1}) {
  return make_budget_table(swept().results, swept().study, draws);
}

inline void check_equal(const BudgetAnswer& a, const BudgetAnswer& b) {
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

}  // namespace tessera::fixture
