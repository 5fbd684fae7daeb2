// The rules of legality: inputs on which other tools have failed, and the staged masks against the scalar rules.
#include <catch2/catch.hpp>

#include <map>

#include "search/inner_mask.hpp"
#include "search/legality.hpp"
#include "study_fixture.hpp"

using namespace tessera;
using namespace tessera::fixture;

namespace {

Architecture dense(std::int64_t layers) {
  Architecture a;
  a.name = "dense";
  a.layers = layers;
  a.hidden = 8192;
  a.heads = 64;
  a.kv_heads = 8;
  a.head_dim = 128;
  a.dense_ffn = 28672;
  a.vocabulary = 128256;
  return a;
}

Architecture moe(std::int64_t layers, std::int64_t experts) {
  Architecture a = dense(layers);
  a.experts = experts;
  a.top_k = 2;
  a.expert_ffn = 2048;
  return a;
}

Plan plan(int tp, int cp, int pp, int dp, std::int64_t batch = 512) {
  Plan p;
  p.tp = tp;
  p.cp = cp;
  p.pp = pp;
  p.dp = dp;
  p.batch = batch;
  return p;
}

Cluster with(std::int64_t devices, void (*change)(Stack&) = [](Stack&) {}) {
  Cluster c = cluster(devices);
  change(c.stack);
  return c;
}

Plan interleaved(Plan p, int v) {
  p.schedule = Schedule::interleaved;
  p.virtual_stages = v;
  return p;
}

void uneven(Stack& s) { s.uneven_stages = true; }
void uneven_with_ends(Stack& s) { s.uneven_stages = s.embedding_as_layer = true; }
void unfolded(Stack& s) { s.folding = false; }

}  // namespace

TEST_CASE("layers over stages", "[legality]") {
  CHECK(legality(dense(80), with(16), interleaved(plan(1, 1, 16, 1), 2), 4096) == Reason::virtual_layers);
  CHECK(legality(dense(80), with(16, uneven), interleaved(plan(1, 1, 16, 1), 2), 4096) == Reason::virtual_layers);
  CHECK(legality(dense(80), with(16, uneven_with_ends), interleaved(plan(1, 1, 16, 1), 2), 4096) == Reason::virtual_layers);
  CHECK(legality(dense(40), with(8), interleaved(plan(1, 1, 8, 1), 2), 4096) == Reason::virtual_layers);
  CHECK(legality(dense(7), with(2), plan(1, 1, 2, 1), 4096) == Reason::pp_layers);
  CHECK(legality(dense(7), with(2, uneven), plan(1, 1, 2, 1), 4096) == Reason::none);
  CHECK(legality(dense(46), with(4), plan(1, 1, 4, 1), 4096) == Reason::pp_layers);
  CHECK(legality(dense(46), with(4, uneven), plan(1, 1, 4, 1), 4096) == Reason::none);
  CHECK(legality(dense(6), with(4, uneven_with_ends), plan(1, 1, 4, 1), 4096) == Reason::none);
  CHECK(legality(dense(126), with(8, uneven_with_ends), interleaved(plan(1, 1, 8, 1), 8), 4096) == Reason::none);
  CHECK(legality(dense(126), with(8, uneven), interleaved(plan(1, 1, 8, 1), 8), 4096) == Reason::virtual_layers);
  CHECK(legality(dense(126), with(8), plan(1, 1, 8, 1), 4096) == Reason::pp_layers);
}

TEST_CASE("batches and micro-batches", "[legality]") {
  Plan p = plan(1, 1, 1, 8, 100);
  CHECK(legality(dense(8), with(8), p, 4096) == Reason::batch);  // 100 sequences over 8: never rounded
  p = interleaved(plan(1, 1, 4, 1, 6), 2);
  CHECK(legality(dense(8), with(4), p, 4096) == Reason::interleaved_batches);
  p.batch = 8;
  CHECK(legality(dense(8), with(4), p, 4096) == Reason::none);
  CHECK(legality(dense(8), with(8), plan(1, 1, 8, 1, 4), 4096) == Reason::none);  // 1F1B may have fewer than stages
  const Cluster all = with(4, [](Stack& s) { s.schedules = {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::dualpipe}; });
  p = plan(1, 1, 4, 1, 3);
  p.schedule = Schedule::zb_h1;
  CHECK(legality(dense(8), all, p, 4096) == Reason::schedule_batches);
  p.batch = 4;
  CHECK(legality(dense(8), all, p, 4096) == Reason::none);
  p.schedule = Schedule::dualpipe;
  CHECK(legality(dense(8), all, p, 4096) == Reason::schedule_batches);
  p.batch = 8;
  CHECK(legality(dense(8), all, p, 4096) == Reason::none);
  p.batch = 9;
  CHECK(legality(dense(8), all, p, 4096) == Reason::schedule_batches);
  CHECK(legality(dense(8), with(4), p, 4096) == Reason::schedule_batches);
  p.batch = 8;
  CHECK(legality(dense(8), with(4), p, 4096) == Reason::schedule_stack);
}

TEST_CASE("expert meshes", "[legality]") {
  // 32 devices, cp 16, dp 2, ep 32: legal where the expert mesh is folded, and only there.
  Plan p = plan(1, 16, 1, 2);
  p.ep = 32;
  CHECK(legality(moe(8, 64), with(32), p, 4096) == Reason::none);
  CHECK(legality(moe(8, 64), with(32, unfolded), p, 4096) == Reason::folding);
  p.ep = 64;
  CHECK(legality(moe(8, 64), with(32), p, 4096) == Reason::expert_mesh);
  p.ep = 24;
  CHECK(legality(moe(8, 64), with(32), p, 4096) == Reason::ep_experts);
  // tp 2, ep 4 and etp = tp: the mesh is 8 devices.
  p = plan(2, 1, 1, 4);
  p.ep = 4;
  p.etp = 2;
  CHECK(legality(moe(8, 8), with(8), p, 4096) == Reason::none);
  CHECK(legality(moe(8, 8), with(8, unfolded), p, 4096) == Reason::none);
  p.ep = 8;
  CHECK(legality(moe(8, 8), with(8), p, 4096) == Reason::expert_mesh);
  // One device, every degree 1, dense or not; an expert axis on a dense model is no plan.
  CHECK(legality(moe(8, 8), with(1), plan(1, 1, 1, 1), 4096) == Reason::none);
  CHECK(legality(dense(8), with(1), plan(1, 1, 1, 1), 4096) == Reason::none);
  p = plan(1, 1, 1, 8);
  p.ep = 2;
  CHECK(legality(dense(8), with(8), p, 4096) == Reason::dense_expert_axis);
  // The world is tp cp pp dp: ep is no factor of it.
  p = plan(1, 1, 1, 4);
  p.ep = 2;
  CHECK(legality(moe(8, 8), with(8), p, 4096) == Reason::devices);
}

TEST_CASE("degrees and widths", "[legality]") {
  CHECK(legality(dense(8), with(3), plan(3, 1, 1, 1), 3072) == Reason::tp_heads);
  CHECK(legality(dense(8), with(16), plan(16, 1, 1, 1), 4096) == Reason::none);  // a multiple of 8 key/value heads
  Architecture a = dense(8);
  a.heads = 60;
  a.kv_heads = 6;
  CHECK(legality(a, with(4), plan(4, 1, 1, 1), 4096) == Reason::tp_kv_heads);
  a.attention = AttentionKind::mla;
  CHECK(legality(a, with(4), plan(4, 1, 1, 1), 4096) == Reason::none);
  a = dense(8);
  a.dense_ffn = 1004;
  CHECK(legality(a, with(8), plan(8, 1, 1, 1), 4096) == Reason::tp_ffn);
  CHECK(legality(dense(8), with(3), plan(1, 3, 1, 1), 4096) == Reason::cp_sequence);
  CHECK(legality(dense(8), with(64), plan(64, 1, 1, 1), 96) == Reason::tp_sequence);
  Plan p = plan(1, 1, 2, 4);
  p.zero = 2;
  CHECK(legality(dense(8), with(8), p, 4096) == Reason::zero_stack);
  CHECK(legality(dense(8), with(8, [](Stack& s) { s.zero23_with_pp = true; }), p, 4096) == Reason::none);
  p.zero = 1;
  p.precision = Precision::nvfp4;
  CHECK(legality(dense(8), with(8), p, 4096) == Reason::precision_device);
}

TEST_CASE("canonical forms", "[legality]") {
  InnerAxes axes;
  axes.zero = {0, 1, 2, 3};
  axes.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  Plan p = plan(1, 1, 1, 1);
  for (const int zero : {1, 2, 3}) {
    p.zero = zero;
    CHECK(legality(dense(8), with(1), p, 4096, &axes) == Reason::not_canonical);
  }
  p.zero = 0;
  CHECK(legality(dense(8), with(1), p, 4096, &axes) == Reason::none);
  axes.zero = {1};  // the only one there is stands for all
  p.zero = 1;
  CHECK(legality(dense(8), with(1), p, 4096, &axes) == Reason::none);
  // Two expert replicas behind one dense replica: ZeRO 1 shards the experts.
  axes.zero = {0, 1};
  p = plan(2, 1, 1, 1);
  CHECK(legality(moe(8, 8), with(2), p, 4096, &axes) == Reason::none);
  p.ep = 2;
  CHECK(legality(moe(8, 8), with(2), p, 4096, &axes) == Reason::not_canonical);
  p = plan(1, 1, 1, 2);
  p.recompute = Recompute::selective;
  CHECK(legality(dense(8), with(2), p, 4096, &axes) == Reason::not_canonical);
  CHECK(legality(moe(8, 8), with(2), p, 4096, &axes) == Reason::none);
  p.recompute = Recompute::none;
  CHECK(legality(dense(8), with(2), interleaved(p, 2), 4096) == Reason::not_canonical);
}

TEST_CASE("the staged masks are the scalar rules", "[legality]") {
  std::mt19937_64 random(4);
  std::map<Reason, int> met;
  for (int round = 0; round < 200; ++round) {
    const Study s = random_study(random);
    const Space space(s);
    InnerMask mask(space.inner());
    for (int i = 0; i < 40; ++i) {
      Digits d = space.decode(random() % space.points());
      const Architecture& a = space.architecture(d);
      const Cluster& c = space.cluster(d);
      const Mesh& mesh = space.meshes(d.cluster)[d.mesh];
      const ExpertMesh& expert = space.expert_meshes(d.cluster)[d.expert];
      Reason outer = mesh_rule(a, c, mesh, s.sequence);
      if (outer == Reason::none) outer = expert_rule(a, c.stack, mesh, expert);
      if (outer != Reason::none) {
        ++met[outer];
        REQUIRE(space.legality(d) == outer);
        continue;
      }
      mask.set(a, c, s.batches[d.batch], space.precisions()[d.precision], mesh);
      const BlockMask& m = mask.mask(expert);
      std::array<std::uint64_t, kReasonCount> refused{};
      std::uint64_t legal = 0;
      std::uint32_t index = 0;
      for (d.zero = 0; d.zero < space.inner().zero.size(); ++d.zero)
        for (d.micro_batch = 0; d.micro_batch < space.inner().micro_batch.size(); ++d.micro_batch)
          for (d.recompute = 0; d.recompute < space.inner().recompute.size(); ++d.recompute)
            for (d.variant = 0; d.variant < space.inner().variant.size(); ++d.variant, ++index) {
              const Reason r = space.legality(d);
              ++met[r];
              REQUIRE((r == Reason::none) == (m.legal[index] != 0));
              if (r == Reason::none) REQUIRE(m.index[legal++] == index);
              else if (refused[static_cast<std::size_t>(r)]++ == 0) REQUIRE(m.sample[static_cast<std::size_t>(r)] == index);
            }
      REQUIRE(m.count() == legal);
      REQUIRE(m.refused == refused);
    }
  }
  for (const Reason r : {Reason::none, Reason::tp_heads, Reason::pp_layers, Reason::ep_experts, Reason::expert_mesh, Reason::folding,
                         Reason::dense_expert_axis, Reason::batch, Reason::virtual_layers, Reason::interleaved_batches,
                         Reason::schedule_batches, Reason::schedule_stack, Reason::zero_stack, Reason::precision_device,
                         Reason::not_canonical})
    CHECK(met[r] > 0);
}
