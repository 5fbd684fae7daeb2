// The scalar reference: one plan, every second and byte. Reads like cost-model.md.
#include "tessera/step_cost.hpp"

#include <algorithm>
#include <cmath>

#include "model/composition.hpp"
#include "model/recompute.hpp"
#include "model/step_cost_detail.hpp"
#include "tessera/error.hpp"

namespace tessera {

double TimeBreakdown::sum() const { return compute() + communication() + host + ramp + fixed + jitter; }
double TimeBreakdown::compute() const {
  return gemm + experts + attention + pointwise + casts + head + recompute + optimizer;
}
double TimeBreakdown::communication() const {
  return tensor_parallel + context_parallel + expert_exchange + point_to_point + data_parallel;
}
double StageMemory::sum() const {
  return weights + gradients + optimizer + activations + wgrad_buffers + working_set + point_to_point + constant;
}

double law_mfu(double active_parameters, std::int64_t batch, std::int64_t sequence, double step_seconds,
               std::int64_t devices, double peak_bf16) {
  if (!(step_seconds > 0) || devices <= 0 || !(peak_bf16 > 0)) return 0;
  return 6 * active_parameters * double(batch) * double(sequence) / (step_seconds * double(devices) * peak_bf16);
}

double Cluster::peak(Precision p) const {
  switch (p) {
    case Precision::bf16: return device.peak_bf16;
    case Precision::nvfp4: return device.peak_fp4;
    // Units that scale blocks of numbers came with 4-bit formats: a device without those runs plain fp8 alone.
    case Precision::mxfp8: return device.peak_fp4 > 0 ? device.peak_fp8 : 0;
    default: return device.peak_fp8;
  }
}

namespace {

Seconds sum_of(const Work& w) { return w.forward + w.input_gradient + w.weight_gradient; }

// Work of one micro-batch on the slowest device, by cause. A part is its own mirror image but in DualPipe, where half of the
// micro-batches meet each.
Seconds slowest_device(const Layout& layout, const StepParts& parts, int virtual_stages, const Work& dense, const Work& moe,
                       const Work& embedding, const Work& head, double mtp) {
  auto work_of = [&](const auto& held) {
    Seconds s = sum_of(dense) * held.dense + sum_of(moe) * held.moe;
    if (held.first) s += sum_of(embedding);
    if (held.last) s += sum_of(head) * (1 + mtp);
    return s;
  };
  const auto run = static_cast<std::size_t>(parts.slowest_run), mirror = static_cast<std::size_t>(parts.mirror_run);
  if (virtual_stages > 1) return work_of(layout.devices[run]);
  return (work_of(layout.parts[run]) + work_of(layout.parts[mirror])) * 0.5;
}

TimeBreakdown breakdown_of(const Seconds& s) {
  TimeBreakdown t;
  t.gemm = s[Term::gemm];
  t.experts = s[Term::experts];
  t.attention = s[Term::attention];
  t.pointwise = s[Term::pointwise];
  t.casts = s[Term::casts];
  t.head = s[Term::head];
  t.recompute = s[Term::recompute];
  t.tensor_parallel = s[Term::tensor_parallel];
  t.context_parallel = s[Term::context_parallel];
  t.expert_exchange = s[Term::expert_exchange];
  t.host = s[Term::host];
  return t;
}

}  // namespace

StepCost evaluate(const Architecture& a, const Cluster& c, const Plan& plan, std::int64_t sequence) {
  return evaluate_modules(a, c, plan, sequence, recompute_modules(plan.recompute));
}

StepCost evaluate_modules(const Architecture& a, const Cluster& c, const Plan& plan, std::int64_t sequence, unsigned modules) {
  if (a.mamba_layers > 0)
    throw InputError("cannot cost " + a.name, "state-space (Mamba) layers have no cost model here", "use a transformer.");
  const Setting set{&a, &c, sequence, plan.precision};
  const Shard shard{plan.tp, plan.cp, plan.ep, plan.etp, plan.micro_batch};
  const bool overlapped = plan.schedule == Schedule::dualpipe;
  const bool has_dense = !a.is_moe() || a.dense_ffn > 0;

  const Piece attention = attention_piece(set, shard, projection_piece(set, shard));
  Work dense, moe;
  if (has_dense) dense = layer_work(set, attention, dense_ffn_piece(set, shard), false, modules, overlapped);
  if (a.is_moe()) moe = layer_work(set, attention, expert_piece(set, shard, beside_experts_piece(set, shard)), true, modules, overlapped);
  const Work embedding = embedding_work(set, shard), head = head_work(set, shard);
  const Times<double> embedding_times = times_of(embedding), head_times = times_of(head);
  const PartTimes<double> work{times_of(dense), times_of(moe), &embedding_times, &head_times, double(a.mtp_layers)};

  const Layout layout = make_layout(a, c.stack, plan.pp, plan.virtual_stages);
  const MeshCost mesh = mesh_cost(set, plan);
  const double coupling = a.is_moe() ? stage_coupling(set, shard, plan.pp, moe) : 0;
  const std::int64_t n = plan.micro_batches();
  StepParts parts;
  compose_pipeline(set, layout, work, mesh, plan.pp, {plan.schedule, plan.virtual_stages}, n, plan.zero, coupling, parts);
  compose_step(set, layout, work, mesh, plan.zero, parts);

  StepCost cost;
  cost.step_seconds = parts.total();
  const Seconds slowest = slowest_device(layout, parts, plan.virtual_stages, dense, moe, embedding, head, work.mtp_heads);
  cost.time = breakdown_of(slowest * double(n));
  cost.time.host += double(n) * plan.virtual_stages * coupling;
  cost.time.point_to_point = double(n) * parts.point_to_point;
  cost.time.data_parallel = double(n) * parts.sharding + parts.data_parallel;
  cost.time.ramp = parts.ramp;
  cost.time.optimizer = parts.optimizer;
  cost.time.fixed = parts.fixed;
  cost.time.jitter = parts.jitter;

  const PartMemory memory = part_memory(set, shard, modules);
  const bool dual = plan.schedule == Schedule::dualpipe && plan.pp > 1;
  for (const DeviceRun& run : dual ? layout.pairs : layout.devices)
    for (int i = 0; i < run.count; ++i) cost.stages.push_back(stage_memory(set, run, run.stage + i, memory, plan));
  for (std::size_t i = 0; i < cost.stages.size(); ++i)
    if (cost.stages[i].sum() > cost.memory_bytes) {
      cost.memory_bytes = cost.stages[i].sum();
      cost.heaviest_stage = static_cast<int>(i);
    }
  const StageMemory& heaviest = cost.stages[static_cast<std::size_t>(cost.heaviest_stage)];
  cost.memory_with_reserve_bytes =
      reserve_bytes(c, plan, cost.memory_bytes, heaviest.activations + heaviest.working_set, local_tokens(set, shard));
  cost.capacity_bytes = c.memory_cap > 0 ? c.memory_cap : c.device.capacity;
  cost.expected_error = std::max(c.device.time_error, c.stack.time_error);
  return cost;
}

TokenFlops token_flops(const Architecture& a, std::int64_t sequence, Recompute recompute) {
  const ParameterCount count = count_parameters(a);
  TokenFlops f;
  f.law = 6.0 * double(count.non_embedding_active);
  const double mla = double(a.heads) * double(a.qk_nope + a.qk_rope + a.v_head) / 2;
  const double width = a.attention == AttentionKind::mla ? mla : double(a.heads) * double(a.head_dim);
  const double softmax_layers = double(a.layers - a.linear_attention_layers);
  const double s = double(sequence);
  // Keys a query meets: all of the square, half of it, or its window.
  auto keys = [&](bool causal) {
    const double full = causal ? s / 2 : s;
    if (a.window <= 0) return full;
    const double w = std::min(double(a.window), s);
    const double windowed = causal ? w - w * w / (2 * s) : w;
    return full * (1 - a.window_share) + std::min(full, windowed) * a.window_share;
  };
  const double head = 6.0 * double(a.vocabulary) * double(a.hidden);
  const double router = a.is_moe() ? 6.0 * double(a.hidden) * double(a.experts) * double(a.moe_layer_count()) : 0;
  const double matrices = f.law + head + router;
  constexpr double kAttentionFlops = 12;  // two products of 2 FLOP, forward and twice backward, per key and width
  f.model = matrices + kAttentionFlops * softmax_layers * width * keys(true);
  f.model_full_attention = matrices + kAttentionFlops * softmax_layers * width * keys(false);
  f.hardware = f.model;
  if (recompute == Recompute::full) f.hardware += (f.model - head) / 3;
  return f;
}

}  // namespace tessera
