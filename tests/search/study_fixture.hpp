// Studies of tests: the ladder of the paper on B200-like clusters, made by hand (but for what the operations of a plain stack move).
#pragma once
#include <random>
#include <vector>

#include "io/preset_reader.hpp"
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera::fixture {

inline Cluster cluster(std::int64_t devices) {
  Cluster c;
  c.name = "test";
  c.device.name = "b200";
  c.device.generation = Generation::blackwell;
  c.device.peak_bf16 = 2.25e15;
  c.device.peak_fp8 = 4.5e15;
  c.device.hbm_bandwidth = 8e12;
  c.device.capacity = 179e9;
  c.device.sms = 148;
  c.device.gemm_ceiling = 0.75;
  c.device.hbm_share = 0.8;
  c.device.gemm_tiles = {{64, 64}, {128, 64}, {128, 128}, {128, 256}, {256, 128}};
  c.device.grouped_tile = {128, 256};
  c.device.gemm_depth_step = 64;
  c.device.attention_forward = c.device.attention_forward_64 = 0.6;
  c.device.attention_backward = c.device.attention_backward_64 = 0.5;
  c.fabric.levels = {{"nvlink", 8, 9e11, 0.8, 1e-5, 1e-6, 1}, {"network", 0, 5e10, 0.8, 2e-5, 1e-6, 1}};
  c.stack = Presets().stack("base");
  c.devices = devices;
  c.memory_cap = 179e9;
  return c;
}

/// A law of loss = 1 + 400 / N^0.34 + 400 / D^0.28: enough to rank.
inline Law law() {
  Law l;
  l.name = "test";
  l.form = LawForm::chinchilla;
  for (const auto& info : form_info(l.form).coefficients)
    l.coefficients.push_back(info.kind == CoefficientKind::exponent ? 0.3 : info.kind == CoefficientKind::constant ? 1.0 : 400.0);
  return l;
}

inline void add(Study& s, const Architecture& a) {
  s.architectures.push_back(a);
  s.counts.push_back(count_parameters(a));
}

inline Study study(std::int64_t devices) {
  Study s;
  s.clusters = {cluster(devices)};
  s.days = {20};
  s.batches = {1024};
  s.sequence = 2048;
  s.law = law();
  s.record = Record::best;
  return s;
}

/// The 1,092 architectures of the paper's grid.
inline void add_paper_ladder(Study& s) {
  for (const std::int64_t q : {8, 10, 12, 14, 16, 18})
    for (const std::int64_t experts : {4, 6, 8, 16, 24, 32, 48, 96, 128, 192, 256, 384, 512})
      for (const std::int64_t top_k : {1, 2, 4, 6, 8})
        for (const double split : {1, 2, 4, 8}) {
          if (top_k >= experts) continue;
          const Architecture a = ladder({.q = q, .experts = experts, .top_k = top_k, .split = split});
          if (count_parameters(a).sparsity() >= 0.7) add(s, a);
        }
}

/// The axes called "paper" in the counts of the plan space.
inline void paper_axes(Study& s) {
  s.plan.etp.values = {{1}};
  s.plan.virtual_stages.values = {{1}};
  s.plan.micro_batch.values = {{1, 2, 4}};
  s.plan.zero.values = {{1}};
  s.plan.schedule.values = {{Schedule::one_f_one_b}};
  s.plan.precision.values = {{Precision::bf16}};
}

/// The axes called "extended": a folding stack with every schedule.
inline void extended_axes(Study& s) {
  s.plan.etp.values = {{1, 2, 4, 8}};
  s.plan.virtual_stages.values = {{1, 2, 3, 4, 5, 6, 7, 8}};
  s.plan.micro_batch.values = {{1, 2, 4, 8}};
  s.plan.precision.values = {{Precision::bf16}};
  for (Cluster& c : s.clusters) {
    c.stack.folding = true;
    c.stack.zero23_with_pp = true;
    c.stack.schedules = {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe};
  }
}

/// A small study with odd sizes, random axes and architectures of several kinds: powers of two are not special.
inline Study random_study(std::mt19937_64& random) {
  const auto pick = [&random](std::initializer_list<std::int64_t> values) { return *(values.begin() + random() % values.size()); };
  Study s = study(pick({1, 6, 8, 12, 16, 24, 30, 64}));
  if (random() % 2) s.clusters.push_back(cluster(pick({2, 18, 32, 48})));
  for (Cluster& c : s.clusters) {
    c.stack.folding = random() % 2;
    c.stack.uneven_stages = random() % 2;
    c.stack.embedding_as_layer = random() % 2;
    c.stack.zero23_with_pp = random() % 2;
    c.stack.schedules = {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe};
    if (random() % 3 == 0) c.stack.schedules.pop_back();
    c.memory_cap = 1e9 * static_cast<double>(pick({4, 16, 40, 80, 179}));
  }
  s.batches = {pick({48, 96, 60}), pick({120, 64})};
  s.sequence = pick({1536, 2048});
  for (const std::int64_t q : {2, 3})
    for (const std::int64_t experts : {0, 12, 16})
      if (random() % 3) add(s, ladder({.q = q, .experts = experts, .top_k = 2, .split = 2, .vocabulary = 32000, .kv_heads = 4}));
  if (s.architectures.empty()) add(s, ladder({.q = 3, .experts = 12, .top_k = 2, .split = 2, .vocabulary = 32000, .kv_heads = 4}));
  s.plan.virtual_stages.values = {{1, 2, 3}};
  s.plan.micro_batch.values = {{1, 2, 3}};
  if (random() % 2) s.plan.zero.values = {{1, 3}};
  if (random() % 2) s.plan.recompute.values = {{Recompute::selective, Recompute::full}};
  s.plan.precision.values = {{Precision::bf16, Precision::nvfp4}};
  if (random() % 2) s.plan.precision.values = {{Precision::bf16}};
  return s;
}

}  // namespace tessera::fixture
