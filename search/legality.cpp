#include "search/legality.hpp"

#include <algorithm>

#include "model/stage_layout.hpp"

namespace tessera {
namespace {

bool divides(std::int64_t divisor, std::int64_t value) { return value % divisor == 0; }

/// Widths of the FFNs that tensor parallelism cuts: dense layers and shared experts.
bool tp_cuts_ffn(const Architecture& a, std::int64_t tp) {
  const bool has_dense = !a.is_moe() || a.moe_layer_count() < a.layers;
  return (!has_dense || divides(tp, a.dense_ffn)) && divides(tp, a.shared_ffn);
}

/// Interleaved chunks are alike: pp*v divides the layers, or (where the stack counts them as layers) the layers
/// with embedding, head and each MTP module with its own head.
bool chunks_are_even(const Architecture& a, const Stack& stack, std::int64_t chunks) {
  if (divides(chunks, a.layers)) return true;
  const std::int64_t slots = a.layers + 2 + 2 * a.mtp_layers;
  return stack.embedding_as_layer && can_spread(a, stack, chunks) && divides(chunks, slots);
}

Reason micro_batches_rule(Schedule schedule, std::int64_t pp, std::int64_t n) {
  switch (schedule) {
    case Schedule::one_f_one_b:
      return Reason::none;
    case Schedule::interleaved:
      return divides(pp, n) ? Reason::none : Reason::interleaved_batches;
    case Schedule::zb_h1:
      return n >= pp ? Reason::none : Reason::schedule_batches;
    case Schedule::dualpipe:
      return divides(2, pp) && divides(2, n) && n >= 2 * pp ? Reason::none : Reason::schedule_batches;
  }
  return Reason::none;
}

}  // namespace

Reason mesh_rule(const Architecture& a, const Cluster& cluster, const Mesh& mesh, std::int64_t sequence) {
  const std::int64_t tp = mesh.tp, cp = mesh.cp;
  if (tp * cp * mesh.pp * mesh.dp != cluster.devices) return Reason::devices;
  if (!divides(tp, a.heads)) return Reason::tp_heads;
  // Latent attention has no key/value heads to cut: its latents are whole on every rank.
  if (a.attention == AttentionKind::gqa && !divides(tp, a.kv_heads) && !divides(a.kv_heads, tp))
    return Reason::tp_kv_heads;
  if (!tp_cuts_ffn(a, tp)) return Reason::tp_ffn;
  if (cp > 1 && !divides(2 * cp, sequence)) return Reason::cp_sequence;
  if (cluster.stack.sequence_parallel && !divides(tp, sequence / cp)) return Reason::tp_sequence;
  if (!can_spread(a, cluster.stack, mesh.pp)) return Reason::pp_layers;
  return Reason::none;
}

Reason expert_width_rule(const Architecture& a, const ExpertMesh& expert) {
  if (!divides(expert.ep, a.experts)) return Reason::ep_experts;
  if (!divides(expert.etp, a.expert_ffn)) return Reason::etp_ffn;
  return Reason::none;
}

Reason expert_rule(const Architecture& a, const Stack& stack, const Mesh& mesh, const ExpertMesh& expert) {
  if (const Reason r = expert_width_rule(a, expert); r != Reason::none) return r;
  const std::int64_t stage = std::int64_t{1} * mesh.tp * mesh.cp * mesh.dp;
  if (!divides(std::int64_t{1} * expert.ep * expert.etp, stage)) return Reason::expert_mesh;
  const bool unfolded = (expert.etp == mesh.tp || expert.etp == 1) && divides(expert.ep, mesh.dp);
  if (!stack.folding && !unfolded) return Reason::folding;
  if (!a.is_moe() && (expert.ep > 1 || expert.etp > 1)) return Reason::dense_expert_axis;
  return Reason::none;
}

Reason schedule_rule(const Architecture& a, const Stack& stack, const Mesh& mesh, std::int64_t batch,
                     int micro_batch, const Variant& variant) {
  const std::int64_t per_step = std::int64_t{1} * mesh.dp * micro_batch;
  if (!divides(per_step, batch)) return Reason::batch;
  const std::int64_t chunks = std::int64_t{1} * mesh.pp * variant.virtual_stages;
  if (variant.virtual_stages > 1 && !chunks_are_even(a, stack, chunks)) return Reason::virtual_layers;
  if (const Reason r = micro_batches_rule(variant.schedule, mesh.pp, batch / per_step); r != Reason::none) return r;
  const auto& has = stack.schedules;
  return std::find(has.begin(), has.end(), variant.schedule) == has.end() ? Reason::schedule_stack : Reason::none;
}

Reason zero_rule(const Stack& stack, int pp, int zero) {
  return zero >= 2 && pp > 1 && !stack.zero23_with_pp ? Reason::zero_stack : Reason::none;
}

Reason precision_rule(const Cluster& cluster, Precision precision) {
  return cluster.peak(precision) > 0 ? Reason::none : Reason::precision_device;
}

bool nothing_to_shard(const Mesh& mesh, const ExpertMesh& expert) {
  const std::int64_t replicas = std::int64_t{1} * mesh.cp * mesh.dp;
  return replicas == 1 && replicas * mesh.tp == std::int64_t{1} * expert.ep * expert.etp;
}

bool schedule_is_canonical(int pp, const Variant& variant) {
  return pp > 1 || variant.schedule == Schedule::one_f_one_b;
}

bool zero_is_canonical(bool nothing_to_shard, int zero, const InnerAxes* axes) {
  return !nothing_to_shard || axes == nullptr ||
         zero == *std::min_element(axes->zero.begin(), axes->zero.end());
}

bool recompute_is_canonical(const Architecture& a, Recompute recompute, const InnerAxes* axes) {
  if (a.is_moe() || recompute != Recompute::selective || axes == nullptr) return true;
  return std::find(axes->recompute.begin(), axes->recompute.end(), Recompute::none) == axes->recompute.end();
}

Reason legality(const Architecture& a, const Cluster& cluster, const Plan& plan, std::int64_t sequence,
                const InnerAxes* axes) {
  const Mesh mesh{plan.pp, plan.cp, plan.tp, plan.dp};
  const ExpertMesh expert{plan.ep, plan.etp};
  const Variant variant{plan.schedule, plan.virtual_stages};
  Reason r = mesh_rule(a, cluster, mesh, sequence);
  if (r == Reason::none) r = expert_rule(a, cluster.stack, mesh, expert);
  if (r == Reason::none) r = schedule_rule(a, cluster.stack, mesh, plan.batch, plan.micro_batch, variant);
  if (r == Reason::none) r = zero_rule(cluster.stack, plan.pp, plan.zero);
  if (r == Reason::none) r = precision_rule(cluster, plan.precision);
  if (r != Reason::none) return r;
  const bool canonical = schedule_is_canonical(plan.pp, variant) &&
                         (variant.schedule == Schedule::interleaved) == (variant.virtual_stages > 1) &&
                         zero_is_canonical(nothing_to_shard(mesh, expert), plan.zero, axes) &&
                         recompute_is_canonical(a, plan.recompute, axes);
  return canonical ? Reason::none : Reason::not_canonical;
}

}  // namespace tessera
