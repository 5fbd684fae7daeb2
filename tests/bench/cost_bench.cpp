// What a step costs: profiles of an architecture, the blocks of a search, and the scalar reference they equal.
#include <benchmark/benchmark.h>

#include "bench_study.hpp"
#include "search/inner_mask.hpp"
#include "tessera/space.hpp"

namespace {

using namespace tessera;

/// Everything the search holds while it is in one (architecture, precision, mesh, expert mesh).
struct Block {
  Study study = bench::make_study(Record::best);
  Space space{study};
  InnerMask masks{space.inner()};
  Mesh mesh{8, 1, 2, 16};
  ExpertMesh expert{8, 1};
  Plan plan;
  BlockMask mask;
  std::vector<PlanCost> out;

  Block() {
    masks.set(study.architectures[0], study.clusters[0], study.batches[0], Precision::bf16, mesh);
    mask = masks.mask(expert);
    plan.pp = mesh.pp, plan.cp = mesh.cp, plan.tp = mesh.tp, plan.dp = mesh.dp;
    plan.ep = expert.ep, plan.etp = expert.etp, plan.batch = study.batches[0];
    out.resize(space.inner().size());
  }
  BlockCost cost() const {
    return BlockCost(study.architectures[0], study.clusters[0], space.inner(), study.batches[0], study.sequence,
                     Precision::bf16, study.plan.optimizer);
  }
};

/// Tables of a new architecture up to the first block: profile of its layers, collectives, memory.
void profile(benchmark::State& state) {
  const Block block;
  std::vector<PlanCost> out = block.out;
  for (auto _ : state) {
    BlockCost cost = block.cost();
    cost.select(block.plan);
    cost.cost(block.mask.legal.data(), out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(profile);

void select(benchmark::State& state) {
  const Block block;
  BlockCost cost = block.cost();
  for (auto _ : state) cost.select(block.plan);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(select);

/// Items are evaluations: legal plans of the block.
void batched(benchmark::State& state) {
  Block block;
  BlockCost cost = block.cost();
  cost.select(block.plan);
  for (auto _ : state) {
    cost.cost(block.mask.legal.data(), block.out.data());
    benchmark::DoNotOptimize(block.out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(block.mask.count()));
}
BENCHMARK(batched);

void memory_floor(benchmark::State& state) {
  const Block block;
  BlockCost cost = block.cost();
  cost.select(block.plan);
  for (auto _ : state) benchmark::DoNotOptimize(cost.memory_floor(0, block.mask.legal.data(), 0));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(memory_floor);

void scalar_reference(benchmark::State& state) {
  const Block block;
  Plan plan = block.plan;
  plan.recompute = Recompute::full;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        evaluate(block.study.architectures[0], block.study.clusters[0], plan, block.study.sequence).step_seconds);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(scalar_reference);

void legality_of_a_mesh(benchmark::State& state) {
  Block block;
  for (auto _ : state) {
    block.masks.set(block.study.architectures[0], block.study.clusters[0], block.study.batches[0], Precision::bf16,
                    block.mesh);
    benchmark::DoNotOptimize(block.masks.masks()[0].count());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(block.space.inner().size()));
}
BENCHMARK(legality_of_a_mesh);

}  // namespace
