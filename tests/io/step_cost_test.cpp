// The step cost on presets: sums, monotone memory, published cases, and the batched path against the scalar one.
#include <catch2/catch.hpp>

#include <cmath>
#include <random>

#include "io/architecture_reader.hpp"
#include "io/preset_reader.hpp"
#include "model/stage_layout.hpp"
#include "search/legality.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/units.hpp"

using namespace tessera;

namespace {

Cluster cluster_of(const std::string& spec, std::int64_t devices) { return read_cluster(spec, devices).cluster; }

struct Sample {
  Architecture architecture;
  Cluster cluster;
  Plan plan;
  std::int64_t sequence;
};

std::vector<double> parts_of(const TimeBreakdown& t) {
  return {t.gemm,           t.experts,       t.attention, t.pointwise, t.casts, t.head,      t.recompute, t.tensor_parallel, t.context_parallel, t.expert_exchange,
          t.point_to_point, t.data_parallel, t.host,      t.ramp,      t.fixed, t.optimizer, t.jitter};
}

// Random legal plans over several models and stacks.
template <class Visit>
void random_plans(int count, unsigned seed, Visit visit) {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"ladder:q=8,experts=64,top_k=4,split=4", "p6-b200,stack=megatron-core-dualpipe"},
      {"ladder:q=8,experts=64,top_k=4,split=4", "p6-b200"},
      {"deepseek_v3", "nvl72-gb300,stack=megatron-core-dualpipe"},
      {"llama3_8b", "p5,stack=torchtitan-fsdp2"},
      {"mixtral_8x7b", "dgx-h100,stack=megatron-core-2026"},
      {"ladder:q=8,experts=64,top_k=4,split=4", "dgx-b200,stack=megatron-core-2026,host_coupling_seconds=0.012"},
      {"llama4_maverick", "dgx-b200"}};
  std::mt19937 random(seed);
  auto pick = [&](std::initializer_list<int> values) { return *(values.begin() + random() % values.size()); };
  int done = 0;
  for (int tries = 0; done < count && tries < count * 400; ++tries) {
    const auto& [model, fabric] = pairs[random() % pairs.size()];
    static std::map<std::string, Architecture> models;
    static std::map<std::string, Cluster> clusters;
    if (!models.count(model)) models.emplace(model, read_architecture(model));
    if (!clusters.count(fabric)) clusters.emplace(fabric, cluster_of(fabric, 64));
    Sample s{models.at(model), clusters.at(fabric), {}, 4096};
    Plan& p = s.plan;
    p.tp = pick({1, 2, 4, 8});
    p.cp = pick({1, 1, 2});
    p.pp = pick({1, 2, 4, 8});
    if (64 % (p.tp * p.cp * p.pp)) continue;
    p.dp = 64 / (p.tp * p.cp * p.pp);
    p.ep = s.architecture.is_moe() ? pick({1, 2, 4, 8}) : 1;
    p.etp = s.architecture.is_moe() ? pick({1, 1, 2}) : 1;
    p.micro_batch = pick({1, 2, 4});
    p.zero = pick({0, 1, 1, 2, 3});
    p.recompute = static_cast<Recompute>(random() % 4);
    p.schedule = static_cast<Schedule>(random() % 4);
    p.virtual_stages = p.schedule == Schedule::interleaved ? pick({2, 4}) : 1;
    p.precision = pick({0, 1}) ? Precision::bf16 : Precision::fp8;
    p.batch = 1024;
    if (legality(s.architecture, s.cluster, p, s.sequence) != Reason::none) continue;
    ++done;
    visit(s);
  }
  REQUIRE(done == count);
}

}  // namespace

TEST_CASE("time and memory breakdowns sum to the step and the peak") {
  random_plans(5000, 1, [](const Sample& s) {
    CAPTURE(s.architecture.name, s.cluster.name, s.plan.pp, s.plan.ep, s.plan.zero, s.plan.virtual_stages, int(s.plan.schedule));
    const StepCost c = evaluate(s.architecture, s.cluster, s.plan, s.sequence);
    REQUIRE(std::isfinite(c.step_seconds));
    REQUIRE(c.step_seconds > 0);
    CHECK(c.time.sum() == Approx(c.step_seconds).epsilon(1e-12));
    for (const double part : parts_of(c.time)) CHECK(part >= 0);
    CHECK(c.stages[static_cast<std::size_t>(c.heaviest_stage)].sum() == Approx(c.memory_bytes).epsilon(1e-15));
    for (const StageMemory& stage : c.stages) CHECK(stage.sum() <= c.memory_bytes);
    CHECK(c.memory_with_reserve_bytes > c.memory_bytes);
  });
}

TEST_CASE("DualPipe's slowest device is a pair of stages") {
  // 34 equal layers over 8 stages, of which none has more than 5 and a stage of 5 has a mirror image of 4: a device runs half of its
  // micro-batches through each.
  const Architecture a = read_architecture("mixtral_8x7b,layers=34");
  const Cluster c = cluster_of("dgx-h100,stack=megatron-core-dualpipe", 64);
  Plan line{.pp = 8, .dp = 8, .ep = 8, .batch = 512}, both = line;
  both.schedule = Schedule::dualpipe;
  const StepCost straight = evaluate(a, c, line, 4096), dual = evaluate(a, c, both, 4096);
  CHECK(straight.time.experts > 0);
  CHECK(dual.time.experts / straight.time.experts == Approx(4.5 / 5).epsilon(1e-12));
  CHECK(dual.time.attention / straight.time.attention == Approx(4.5 / 5).epsilon(1e-12));
  CHECK(dual.time.ramp > 0);
  CHECK(dual.time.sum() == Approx(dual.step_seconds).epsilon(1e-12));
}

TEST_CASE("memory falls along recomputation and ZeRO, and ep changes routed experts only") {
  random_plans(300, 2, [](const Sample& s) {
    auto memory = [&](auto change) {
      Plan p = s.plan;
      change(p);
      return evaluate(s.architecture, s.cluster, p, s.sequence).memory_bytes;
    };
    const double none = memory([](Plan& p) { p.recompute = Recompute::none; });
    const double selective = memory([](Plan& p) { p.recompute = Recompute::selective; });
    const double super = memory([](Plan& p) { p.recompute = Recompute::super_selective; });
    const double full = memory([](Plan& p) { p.recompute = Recompute::full; });
    CHECK(selective <= none * (1 + 1e-12));
    CHECK(super <= selective * (1 + 1e-12));
    CHECK(full <= super * (1 + 1e-12));
    const double zero0 = memory([](Plan& p) { p.zero = 0; });
    const double zero1 = memory([](Plan& p) { p.zero = 1; });
    CHECK(zero1 <= zero0 * (1 + 1e-12));
  });
  const Architecture a = read_architecture("mixtral_8x7b");
  const Cluster c = cluster_of("dgx-h100,stack=megatron-core-2026", 64);
  Plan one{.tp = 1, .pp = 2, .dp = 32, .ep = 1, .batch = 512}, eight = one;
  eight.ep = 8;
  const StageMemory a1 = evaluate(a, c, one, 4096).stages[0], a8 = evaluate(a, c, eight, 4096).stages[0];
  CHECK(a1.activations == a8.activations);
  const double routed = double(a.layers) / 2 * double(a.experts) * 3 * double(a.hidden) * double(a.expert_ffn);
  CHECK(a1.weights - a8.weights == Approx(2 * routed * 7 / 8).epsilon(1e-12));
}

TEST_CASE("micro-batches beyond the stages change no memory, bandwidth changes time where traffic is exposed") {
  const Architecture a = read_architecture("llama3_70b");
  const Cluster c = cluster_of("dgx-h100", 64);
  Plan p{.tp = 8, .pp = 4, .dp = 2, .batch = 32};
  const double few = evaluate(a, c, p, 4096).memory_bytes;
  p.batch = 4096;
  CHECK(evaluate(a, c, p, 4096).memory_bytes == few);
  const StepCost slow = evaluate(a, c, p, 4096);
  const StepCost fast = evaluate(a, cluster_of("dgx-h100,nic=4x,nvlink=2x", 64), p, 4096);
  CHECK(fast.step_seconds < slow.step_seconds);
}

TEST_CASE("published memory cases") {
  SECTION("Llama-2-7B on 8 devices with a distributed optimizer: states of 47.06 GiB, activations 32.2 GiB") {
    const Architecture a = read_architecture("dense:layers=32,hidden=4096,heads=32,dense_ffn=11008,vocabulary=32000");
    const Cluster c = cluster_of("dgx-h100,stack=megatron-lm-2023", 8);
    const Plan p{.dp = 8, .micro_batch = 2, .batch = 128};
    const StageMemory m = evaluate(a, c, p, 4096).stages[0];
    CHECK(m.weights / kGiB == Approx(12.55).epsilon(0.005));
    CHECK(m.gradients / kGiB == Approx(25.10).epsilon(0.005));
    CHECK(m.optimizer / kGiB == Approx(9.41).epsilon(0.005));
    CHECK(m.activations / kGiB == Approx(32.16).epsilon(0.005));
  }
  SECTION("the optimum of the paper: stage 0 is the heaviest without recomputation, the last with it") {
    const Architecture a = read_architecture("ladder:q=12,experts=96,top_k=2,split=4");
    const Cluster c = cluster_of("p6-b200", 256);
    Plan p{.pp = 8, .dp = 32, .ep = 8, .micro_batch = 4, .batch = 1024};
    const StepCost none = evaluate(a, c, p, 2048);
    CHECK(none.heaviest_stage == 0);
    CHECK(none.memory_bytes / 1e9 == Approx(125.4).epsilon(0.04));
    p.recompute = Recompute::full;
    const StepCost full = evaluate(a, c, p, 2048);
    CHECK(full.heaviest_stage == 7);
    CHECK(full.memory_bytes / 1e9 == Approx(71.0).epsilon(0.04));
  }
}

TEST_CASE("layers spread over stages as frameworks do") {
  auto sizes = [](std::int64_t layers, std::int64_t parts, bool as_layer) {
    Architecture a;
    a.layers = layers;
    Stack s;
    s.uneven_stages = true;
    s.embedding_as_layer = as_layer;
    std::vector<std::int64_t> out;
    for (const Part& p : spread_layers(a, s, parts)) out.push_back(p.dense + p.moe);
    return out;
  };
  CHECK(sizes(7, 2, false) == std::vector<std::int64_t>{4, 3});
  CHECK(sizes(46, 4, false) == std::vector<std::int64_t>{12, 12, 11, 11});
  CHECK(sizes(6, 4, true) == std::vector<std::int64_t>{1, 2, 2, 1});
  const auto llama = sizes(126, 64, true);
  CHECK(llama.front() == 1);
  CHECK(llama[1] == 2);
  CHECK(llama.back() == 1);
}

TEST_CASE("FLOPs per token by convention") {
  const TokenFlops llama = token_flops(read_architecture("llama3_8b"), 8192);
  CHECK(llama.model / 1e9 == Approx(51.5).epsilon(0.002));
  CHECK(llama.model_full_attention / 1e9 == Approx(57.9).epsilon(0.002));
  CHECK(token_flops(read_architecture("qwen3_30b_a3b"), 8192).model_full_attention == Approx(37578559488.0).epsilon(1e-3));
}

TEST_CASE("the batched path gives the numbers of the scalar one") {
  random_plans(4000, 3, [](const Sample& s) {
    const Plan& p = s.plan;
    InnerAxes axes;
    axes.zero = {0, 1, 2, 3};
    axes.micro_batch = {1, 2, 4};
    axes.recompute = {Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full};
    axes.variant = {{p.schedule, p.virtual_stages}};
    BlockCost block(s.architecture, s.cluster, axes, p.batch, s.sequence, p.precision, p.optimizer);
    block.select(p);
    const std::size_t b = p.micro_batch == 1 ? 0 : p.micro_batch == 2 ? 1 : 2;
    const std::size_t index = axes.index(std::size_t(p.zero), b, std::size_t(p.recompute), 0);
    std::vector<std::uint8_t> legal(axes.size(), 0);
    legal[index] = 1;
    std::vector<PlanCost> out(axes.size());
    block.cost(legal.data(), out.data());
    const StepCost scalar = evaluate(s.architecture, s.cluster, p, s.sequence);
    const PlanCost& batched = out[index];
    REQUIRE(batched.memory_bytes == Approx(scalar.memory_bytes).epsilon(1e-12));
    REQUIRE(batched.memory_with_reserve_bytes == Approx(scalar.memory_with_reserve_bytes).epsilon(1e-12));
    CHECK(block.memory_floor(std::size_t(p.zero), legal.data(), 0) == Approx(batched.memory_with_reserve_bytes).epsilon(1e-12));
    if (!scalar.fits()) {
      CHECK(batched.step_seconds == 0);
      return;
    }
    REQUIRE(batched.step_seconds == Approx(scalar.step_seconds).epsilon(1e-12));
    CHECK(batched.compute_seconds + batched.communication_seconds + batched.ramp_seconds + batched.host_seconds ==
          Approx(batched.step_seconds).epsilon(1e-12));
    CHECK(batched.communication_seconds == Approx(scalar.time.communication()).margin(1e-12 * scalar.step_seconds));
  });
}
