// A plan as text: every key, defaults, what is derived, and the words of its errors.
#include "io/plan_text.hpp"

#include <catch2/catch.hpp>

#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("a plan's text gives the same plan back", "[plan_text]") {
  Plan plan;
  plan.tp = 2, plan.cp = 3, plan.pp = 5, plan.dp = 7, plan.ep = 14, plan.etp = 3, plan.virtual_stages = 4;
  plan.micro_batch = 6, plan.batch = 420, plan.zero = 3, plan.recompute = Recompute::super_selective;
  plan.schedule = Schedule::interleaved, plan.precision = Precision::nvfp4, plan.optimizer = Optimizer::scion;
  CHECK(read_plan_text(to_text(plan), Plan{}).plan == plan);
  for (const auto& key : plan_keys()) CHECK_THAT(to_text(plan), Contains(key + "="));
  CHECK(plan_keys().size() == 14);                                 // every member of Plan
  CHECK(read_plan_text(to_text(Plan{}), plan).plan.batch == 420);  // a batch not chosen yet is not written
}

TEST_CASE("what is left out comes from the defaults", "[plan_text]") {
  Plan defaults;
  defaults.batch = 64, defaults.micro_batch = 2, defaults.zero = 2;
  const PlanText read = read_plan_text(" tp = 4 , zero=0, ", defaults);
  CHECK(read.plan.tp == 4);
  CHECK(read.plan.zero == 0);
  CHECK(read.plan.batch == 64);
  CHECK(read.plan.micro_batch == 2);
  CHECK(read.has("tp"));
  CHECK_FALSE(read.has("batch"));
  CHECK(read_plan_text("", defaults).plan == defaults);
}

TEST_CASE("dp, etp and the schedule are derived where they are not given", "[plan_text]") {
  const Plan plan = parse_plan("tp=2,pp=8,virtual_stages=3", Plan{}, 256, true);
  CHECK(plan.dp == 16);
  CHECK(plan.etp == 2);
  CHECK(plan.schedule == Schedule::interleaved);
  CHECK(parse_plan("tp=2,etp=1", Plan{}, 8, true).etp == 1);
  CHECK(parse_plan("tp=2", Plan{}, 8, false).etp == 1);
  CHECK(parse_plan("tp=2,dp=5", Plan{}, 8).dp == 5);  // as given: legality says what is wrong with it
  CHECK(parse_plan("virtual_stages=2,schedule=dualpipe", Plan{}).schedule == Schedule::dualpipe);
  CHECK(parse_plan("tp=1024,pp=96", Plan{}, 98304).dp == 1);
}

TEST_CASE("mistakes in a plan are named", "[plan_text]") {
  CHECK_THROWS_WITH(parse_plan("virtual_stage=2", Plan{}), Contains("virtual_stages"));
  CHECK_THROWS_WITH(parse_plan("tp", Plan{}), Contains("key=value"));
  CHECK_THROWS_WITH(parse_plan("tp=1,tp=2", Plan{}), Contains("twice"));
  CHECK_THROWS_WITH(parse_plan("schedule=1f1c", Plan{}), Contains("1f1b"));
  CHECK_THROWS_WITH(parse_plan("precision=fp16", Plan{}), Contains("bf16"));
  CHECK_THROWS_WITH(parse_plan("tp=3", Plan{}, 8), Contains("tp=3") && Contains("8 devices"));
  for (const char* bad : {"tp=0", "tp=-1", "tp=1.5", "tp=", "tp=nan", "tp=99999999999", "zero=4", "batch=0",
                          "pp=0x10", "recompute=some"})
    CHECK_THROWS_AS(parse_plan(bad, Plan{}), InputError);
}
