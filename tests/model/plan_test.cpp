// Words of a plan: the ones users and files rely on, and that they read back as themselves.
#include "tessera/plan.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using namespace tessera;

TEST_CASE("enumerations have the words of the study file and read back", "[plan]") {
  CHECK(to_string(Schedule::one_f_one_b) == "1f1b");
  CHECK(to_string(Schedule::interleaved) == "interleaved");
  CHECK(to_string(Schedule::zb_h1) == "zb-h1");
  CHECK(to_string(Schedule::dualpipe) == "dualpipe");
  CHECK(to_string(Recompute::super_selective) == "super-selective");
  CHECK(to_string(Precision::nvfp4) == "nvfp4");
  CHECK(to_string(Optimizer::scion) == "scion");
  for (int i = 0; i < 4; ++i) {
    CHECK(schedule_from(to_string(Schedule(i))) == Schedule(i));
    CHECK(recompute_from(to_string(Recompute(i))) == Recompute(i));
    CHECK(precision_from(to_string(Precision(i))) == Precision(i));
  }
  for (int i = 0; i < 3; ++i) CHECK(optimizer_from(to_string(Optimizer(i))) == Optimizer(i));
}

TEST_CASE("unknown words are no value", "[plan]") {
  CHECK_FALSE(schedule_from("gpipe"));
  CHECK_FALSE(schedule_from("1F1B"));
  CHECK_FALSE(schedule_from(""));
  CHECK_FALSE(schedule_from("unknown"));
  CHECK_FALSE(recompute_from("super_selective"));
  CHECK_FALSE(precision_from("fp4"));
  CHECK_FALSE(optimizer_from("adamw"));
  CHECK(to_string(Schedule(200)) == "unknown");
  CHECK(to_string(Reason::count_) == "unknown");
}

TEST_CASE("every reason has its own key and sentence", "[plan]") {
  std::set<std::string> keys, sentences;
  const int count = static_cast<int>(Reason::count_);
  for (int i = 0; i < count; ++i) {
    keys.emplace(to_string(Reason(i)));
    sentences.emplace(explanation(Reason(i)));
  }
  CHECK(static_cast<int>(keys.size()) == count);
  CHECK(static_cast<int>(sentences.size()) == count);
  CHECK(to_string(Reason::tp_heads) == "tp_heads");
  CHECK(to_string(Reason::memory_bound) == "memory_bound");
  CHECK(to_string(Reason::not_canonical) == "not_canonical");
}

TEST_CASE("derived degrees of a plan", "[plan]") {
  Plan plan;
  plan.tp = 2, plan.cp = 4, plan.pp = 8, plan.dp = 16, plan.ep = 32, plan.etp = 2;
  plan.micro_batch = 2, plan.batch = 1024;
  CHECK(plan.devices() == 1024);
  CHECK(plan.edp() == 2);  // 2*4*16 / (32*2)
  CHECK(plan.micro_batches() == 32);
  // 98,304 devices and half a million sequences stay inside the integers.
  plan = Plan{};
  plan.dp = 98304, plan.batch = 98304LL * 65536;
  CHECK(plan.devices() == 98304);
  CHECK(plan.micro_batches() == 65536);
}
