// The batched path against the scalar reference on a million random points of every axis, and the bounds of the pruned search
// against both.
#include <catch2/catch.hpp>

#include <cmath>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "io/architecture_reader.hpp"
#include "io/preset_reader.hpp"
#include "search/inner_mask.hpp"
#include "search/inner_product.hpp"
#include "tessera/step_cost.hpp"

using namespace tessera;

namespace {

constexpr double kAgreement = 1e-12;  // relative

const InnerAxes& axes() {
  static const InnerAxes x{{0, 1, 2, 3},
                           {1, 2, 3, 4, 8},
                           {Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full},
                           {{Schedule::one_f_one_b, 1},
                            {Schedule::interleaved, 2},
                            {Schedule::interleaved, 3},
                            {Schedule::interleaved, 4},
                            {Schedule::interleaved, 7},
                            {Schedule::zb_h1, 1},
                            {Schedule::dualpipe, 1}}};
  return x;
}

/// A random mesh with its expert mesh, and the batched costs of all that is legal below it.
struct Block {
  const Architecture* architecture;
  const Cluster* cluster;
  Mesh mesh;
  ExpertMesh expert;
  Plan plan;
  std::int64_t sequence;
};

class Blocks {
 public:
  explicit Blocks(unsigned seed) : random_(seed) {}

  Block next() {
    for (;;) {
      Block b;
      b.architecture = &architecture();
      b.cluster = &cluster();
      const std::int64_t devices = b.cluster->devices;
      b.mesh.tp = power(3), b.mesh.cp = power(2), b.mesh.pp = pick({1, 2, 3, 4, 8, 16});
      b.sequence = pick({2048, 4096, 8192});
      const std::int64_t rest = std::int64_t{1} * b.mesh.tp * b.mesh.cp * b.mesh.pp;
      if (devices % rest != 0) continue;
      b.mesh.dp = static_cast<int>(devices / rest);
      if (b.architecture->is_moe()) b.expert = {power(6), power(2)};
      if (mesh_rule(*b.architecture, *b.cluster, b.mesh, b.sequence) != Reason::none) continue;
      if (expert_rule(*b.architecture, b.cluster->stack, b.mesh, b.expert) != Reason::none) continue;
      Plan& p = b.plan;
      p.tp = b.mesh.tp, p.cp = b.mesh.cp, p.pp = b.mesh.pp, p.dp = b.mesh.dp, p.ep = b.expert.ep, p.etp = b.expert.etp;
      p.batch = pick({768, 1024, 4096});
      p.precision = static_cast<Precision>(random_() % 4);
      p.optimizer = random_() % 2 ? Optimizer::adam : Optimizer::muon;
      if (precision_rule(*b.cluster, p.precision) == Reason::none) return b;
    }
  }
  int pick(std::initializer_list<int> values) { return *(values.begin() + random_() % values.size()); }

 private:
  int power(unsigned most) { return 1 << random_() % (most + 1); }
  const Architecture& architecture() {
    static const std::vector<std::string> names{
        "ladder:q=8,experts=64,top_k=4,split=4", "ladder:q=14,experts=96,top_k=2,split=8", "deepseek_v3", "llama3_8b", "llama3_70b", "mixtral_8x7b",
        "llama4_maverick", "qwen3_30b_a3b", "gpt_oss_120b", "moe:layers=30,hidden=2880,heads=24,kv_heads=6,experts=48,top_k=3,expert_ffn=1440,vocabulary=50257"};
    static std::map<std::string, Architecture> read;
    const std::string& name = names[random_() % names.size()];
    if (!read.count(name)) read.emplace(name, read_architecture(name));
    return read.at(name);
  }
  const Cluster& cluster() {
    static const std::vector<std::string> names{"p6-b200",        "p6-b200,stack=megatron-core-dualpipe", "nvl72-gb300,stack=megatron-core-dualpipe",
                                                "dgx-b200",       "p5,stack=torchtitan-fsdp2",            "dgx-h100,stack=megatron-core-2026",
                                                "dgx-a100",       "p4d,stack=megatron-lm-2023"};
    static std::map<std::string, Cluster> read;
    const std::string& name = names[random_() % names.size()];
    const int devices = pick({8, 48, 64, 256, 1024});
    const std::string key = name + std::to_string(devices);
    if (!read.count(key)) read.emplace(key, read_cluster(name, devices).cluster);
    return read.at(key);
  }
  std::mt19937 random_;
};

bool close(double a, double b, double scale) { return std::abs(a - b) <= kAgreement * std::abs(scale); }

/// What of the axes was met, for the sentence "of every axis".
struct Seen {
  std::set<std::int64_t> tp, cp, pp, ep, etp, zero, micro_batch, recompute, schedule, virtual_stages, precision, optimizer;
  std::uint64_t points = 0, fit = 0;
  void add(const Plan& p, bool fits) {
    tp.insert(p.tp), cp.insert(p.cp), pp.insert(p.pp), ep.insert(p.ep), etp.insert(p.etp), zero.insert(p.zero), micro_batch.insert(p.micro_batch);
    recompute.insert(int(p.recompute)), schedule.insert(int(p.schedule)), virtual_stages.insert(p.virtual_stages);
    precision.insert(int(p.precision)), optimizer.insert(int(p.optimizer));
    ++points;
    fit += fits;
  }
};

}  // namespace

TEST_CASE("a million points of every axis: batched and scalar agree", "[million]") {
  constexpr std::uint64_t kPoints = 1'000'000;
  constexpr std::size_t kPerBlock = 256;  // of a block's legal plans, so that many blocks are met
  Blocks blocks(20261130);
  InnerMask masks(axes());
  std::mt19937 random(5);
  std::vector<PlanCost> out(axes().size());
  Seen seen;
  std::uint64_t wrong = 0;
  while (seen.points < kPoints) {
    const Block block = blocks.next();
    masks.set(*block.architecture, *block.cluster, block.plan.batch, block.plan.precision, block.mesh);
    const BlockMask& mask = masks.mask(block.expert);
    if (mask.count() == 0) continue;
    BlockCost cost(*block.architecture, *block.cluster, axes(), block.plan.batch, block.sequence, block.plan.precision, block.plan.optimizer);
    cost.select(block.plan);
    cost.cost(mask.legal.data(), out.data());
    std::vector<std::uint32_t> index = mask.index;
    std::shuffle(index.begin(), index.end(), random);
    index.resize(std::min(index.size(), kPerBlock));
    for (const std::uint32_t i : index) {
      const std::size_t v = i % axes().variant.size(), r = i / axes().variant.size() % 4, b = i / axes().variant.size() / 4 % axes().micro_batch.size();
      Plan p = block.plan;
      p.zero = axes().zero[i / axes().variant.size() / 4 / axes().micro_batch.size()];
      p.micro_batch = axes().micro_batch[b];
      p.recompute = axes().recompute[r];
      p.schedule = axes().variant[v].schedule;
      p.virtual_stages = axes().variant[v].virtual_stages;
      const StepCost scalar = evaluate(*block.architecture, *block.cluster, p, block.sequence);
      const PlanCost& batched = out[i];
      bool same = close(batched.memory_bytes, scalar.memory_bytes, scalar.memory_bytes) &&
                  close(batched.memory_with_reserve_bytes, scalar.memory_with_reserve_bytes, scalar.memory_with_reserve_bytes);
      if (scalar.fits())
        same = same && close(batched.step_seconds, scalar.step_seconds, scalar.step_seconds) &&
               close(batched.compute_seconds, scalar.time.compute(), scalar.step_seconds) &&
               close(batched.communication_seconds, scalar.time.communication(), scalar.step_seconds) &&
               close(batched.ramp_seconds, scalar.time.ramp, scalar.step_seconds) && batched.ramp_seconds >= 0 &&
               close(batched.host_seconds, scalar.time.host + scalar.time.fixed + scalar.time.jitter, scalar.step_seconds);
      else
        same = same && batched.step_seconds == 0;
      wrong += !same;
      if (!same && wrong < 10) {
        CAPTURE(block.architecture->name, block.cluster->name, i, p.tp, p.cp, p.pp, p.ep, p.etp, p.zero, int(p.schedule));
        CHECK(batched.step_seconds == scalar.step_seconds);
        CHECK(batched.memory_with_reserve_bytes == scalar.memory_with_reserve_bytes);
      }
      seen.add(p, scalar.fits());
    }
  }
  CHECK(wrong == 0);
  CHECK(seen.fit > kPoints / 4);
  CHECK(seen.fit < kPoints);
  CHECK(seen.tp.size() == 4);
  CHECK(seen.cp.size() == 3);
  CHECK(seen.pp.size() == 6);
  CHECK(seen.ep.size() == 7);
  CHECK(seen.etp.size() == 3);
  CHECK(seen.zero.size() == 4);
  CHECK(seen.micro_batch.size() == axes().micro_batch.size());
  CHECK(seen.recompute.size() == 4);
  CHECK(seen.schedule.size() == 4);
  CHECK(seen.virtual_stages.size() == 5);
  CHECK(seen.precision.size() == 4);
  CHECK(seen.optimizer.size() == 2);
}

TEST_CASE("bounds are below every plan they stand for, the deeper the nearer") {
  Blocks blocks(7);
  InnerMask masks(axes());
  std::vector<PlanCost> out(axes().size());
  std::uint64_t plans = 0, near = 0;
  const auto below = [](double bound, double value) { return bound <= value * (1 + 1e-9); };
  for (int round = 0; round < 6000; ++round) {
    const Block block = blocks.next();
    const Mesh& mesh = block.mesh;
    masks.set(*block.architecture, *block.cluster, block.plan.batch, block.plan.precision, mesh);
    const BlockMask& mask = masks.mask(block.expert);
    const InnerProduct product(axes(), *block.architecture, *block.cluster, block.plan.batch, block.plan.precision, mesh);
    const InnerProduct::Kind& kind = product.kind(mesh, block.expert);
    BlockCost cost(*block.architecture, *block.cluster, axes(), block.plan.batch, block.sequence, block.plan.precision, block.plan.optimizer);
    cost.select(block.plan);
    cost.cost(mask.legal.data(), out.data());
    std::uint64_t legal = 0;
    const std::size_t variants = axes().variant.size();
    for (std::size_t z = 0; z < 4; ++z) {
      std::array<std::uint8_t, 4> only{};
      only[z] = 1;
      const StepFloor floor = cost.floor(only.data());
      const double states = cost.states_floor(block.expert.ep, block.expert.etp, only.data(), 0);
      for (std::size_t b = 0; b < axes().micro_batch.size(); ++b)
        for (std::size_t v = 0; v < variants; ++v) {
          double whole = 0;
          if (product.slice[b * variants + v]) {
            const double on_mesh = cost.mesh_time_floor(b, v), pipeline = cost.time_floor(b, v, {});
            whole = cost.time_floor(b, v, floor);
            REQUIRE(below(on_mesh, pipeline));
            REQUIRE(below(pipeline, whole));
          }
          for (std::size_t r = 0; r < 4; ++r) {
            const std::size_t i = axes().index(z, b, r, v);
            const bool is_legal = product.slice[b * variants + v] && kind.zero[z] && product.mode[r];
            REQUIRE(is_legal == (mask.legal[i] != 0));
            if (!is_legal) continue;
            ++legal;
            REQUIRE(states <= out[i].memory_with_reserve_bytes);
            if (out[i].step_seconds == 0) continue;
            CAPTURE(block.architecture->name, block.cluster->name, mesh.tp, mesh.cp, mesh.pp, block.expert.ep, block.expert.etp, z, b, r, v);
            REQUIRE(below(whole, out[i].step_seconds));
            ++plans;
            near += out[i].step_seconds < 1.25 * whole;
          }
        }
    }
    CHECK(legal == mask.count());
    CHECK(legal == kind.rows * std::accumulate(product.slices.begin(), product.slices.end(), std::uint64_t{0}));
    CHECK(kind.refused == mask.refused);
    for (std::size_t reason = 1; reason < kReasonCount; ++reason)
      if (mask.refused[reason] > 0) CHECK(kind.sample[reason] == mask.sample[reason]);
  }
  CHECK(plans > 100'000);
  CHECK(near > plans / 4);  // a bound of nothing would pass the rest
}

TEST_CASE("a slice gives what the whole block gives") {
  Blocks blocks(11);
  InnerMask masks(axes());
  std::vector<PlanCost> out(axes().size());
  for (int round = 0; round < 500; ++round) {
    const Block block = blocks.next();
    masks.set(*block.architecture, *block.cluster, block.plan.batch, block.plan.precision, block.mesh);
    const BlockMask& mask = masks.mask(block.expert);
    const InnerProduct product(axes(), *block.architecture, *block.cluster, block.plan.batch, block.plan.precision, block.mesh);
    const InnerProduct::Kind& kind = product.kind(block.mesh, block.expert);
    BlockCost cost(*block.architecture, *block.cluster, axes(), block.plan.batch, block.sequence, block.plan.precision, block.plan.optimizer);
    cost.select(block.plan);
    cost.cost(mask.legal.data(), out.data());
    const StepFloor floor = cost.floor(kind.zero.data());
    for (std::size_t b = 0; b < axes().micro_batch.size(); ++b)
      for (std::size_t v = 0; v < axes().variant.size(); ++v) {
        if (!product.slice[b * axes().variant.size() + v]) continue;
        std::size_t best = SliceCost::kNone;
        std::uint64_t fits = 0, misfits = 0;
        for (std::size_t z = 0; z < 4; ++z)
          for (std::size_t r = 0; r < 4; ++r) {
            const std::size_t i = axes().index(z, b, r, v);
            if (!mask.legal[i]) continue;
            (out[i].step_seconds > 0 ? fits : misfits) += 1;
            if (out[i].step_seconds > 0 && (best == SliceCost::kNone || out[i].step_seconds < out[best].step_seconds)) best = i;
          }
        const SliceCost all = cost.slice(b, v, floor, kind.zero.data(), product.mode.data(), std::numeric_limits<double>::infinity());
        CHECK(all.best == best);
        CHECK(all.fits == fits);
        CHECK(all.misfits == misfits);
        CHECK(all.slower == 0);
        if (best == SliceCost::kNone) continue;
        CHECK(all.cost.step_seconds == out[best].step_seconds);
        const SliceCost some = cost.slice(b, v, floor, kind.zero.data(), product.mode.data(), out[best].step_seconds * (1 + 1e-9));
        CHECK(some.best == best);
        CHECK(some.fits + some.misfits + some.slower == fits + misfits);
      }
  }
}
