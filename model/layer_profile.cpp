#include "model/layer_profile.hpp"

#include <algorithm>
#include <cmath>

#include "model/collectives.hpp"
#include "model/kernels.hpp"
#include "model/recompute.hpp"

namespace tessera {
namespace {

double cast_factor(const Stack& s, Precision p) {
  switch (p) {
    case Precision::bf16: return 0;
    case Precision::fp8: return s.cast_fp8;
    case Precision::mxfp8: return s.cast_mxfp8;
    case Precision::nvfp4: return s.cast_nvfp4;
  }
  return 0;
}

// What the pieces share, taken apart once.
struct View {
  const Architecture& a;
  const Device& d;
  const Fabric& f;
  const Stack& s;
  double ratio, bytes, m, ms, tp, stream, cast;
  View(const Setting& set, const Shard& shard)
      : a(*set.architecture), d(set.cluster->device), f(set.cluster->fabric), s(set.cluster->stack),
        ratio(format_ratio(d, set.precision)), bytes(operand_bytes(s, set.precision)), m(local_tokens(set, shard)),
        ms(split_tokens(set, shard)), tp(shard.tp), stream(streaming_rate(d)), cast(cast_factor(s, set.precision)) {}

  // A linear layer: forward, and its two backward GEMMs.
  double linear(Work& w, Term term, double rows, double out, double in) const {
    const double forward = gemm_seconds(d, rows, out, in, ratio, bytes);
    w.forward[term] += forward;
    w.input_gradient[term] += gemm_seconds(d, rows, in, out, ratio, bytes);
    w.weight_gradient[term] += gemm_seconds(d, out, in, rows, ratio, bytes);
    w.weight_gradient[Term::pointwise] += s.accumulate_share * 2 * s.main_gradient_bytes * in * out / stream;
    return forward;
  }
  void pointwise(Work& w, double factor, double forward_bytes, double backward_bytes) const {
    w.forward[Term::pointwise] += factor * forward_bytes / stream;
    w.input_gradient[Term::pointwise] += factor * backward_bytes / stream;
  }
  void casts(Work& w, double share, double forward_elements, double backward_elements) const {
    w.forward[Term::casts] += share * cast * s.cast_bytes * forward_elements / stream;
    w.input_gradient[Term::casts] += share * cast * s.cast_bytes * backward_elements / stream;
  }
  // Tensor-parallel all-gathers and reduce-scatters: half of the layer's units belong to each of its two blocks.
  void tensor_parallel(Work& w) const {
    if (tp <= 1) return;
    const double width = ratio != 1 && s.flash_attention ? s.low_precision_gather : 1;
    const double unit = ring_seconds(f, {tp, 1}, 2 * m * a.hidden * width, 1) * s.tp_exposed;
    w.forward[Term::tensor_parallel] += unit * s.tp_forward_units / 2;
    w.input_gradient[Term::tensor_parallel] += unit * s.tp_backward_units / 2;
  }
};

double attention_width(const Architecture& a) { return double(a.heads) * a.head_dim; }

// Forward FLOP of the causal half square of one layer, averaged over windowed and full layers; whole sequence.
double score_flop(const Architecture& a, double batch, double s) {
  const double width = a.attention == AttentionKind::mla ? double(a.heads) * (a.qk_nope + a.qk_rope + a.v_head) / 2
                                                         : attention_width(a);
  const double full = 2 * batch * s * s * width;
  if (a.window <= 0 || a.window_share <= 0) return full;
  const double w = std::min(double(a.window), s);
  const double windowed = 4 * batch * width * (w * s - w * w / 2);
  return full * (1 - a.window_share) + windowed * a.window_share;
}

void context_parallel_ring(const View& v, const Setting& set, const Shard& shard, const AttentionSeconds& core, Work& w) {
  const double cp = shard.cp;
  if (cp <= 1) return;
  const Architecture& a = v.a;
  const double kv_width = a.attention == AttentionKind::mla
                              ? double(a.heads) * (a.qk_nope + a.qk_rope + a.v_head) / 2 / v.tp
                              : double(a.kv_heads) * a.head_dim / std::min(v.tp, double(a.kv_heads));
  const double out_width = (a.attention == AttentionKind::mla ? double(a.heads) * a.v_head : attention_width(a)) / v.tp;
  const Group ring{cp, double(shard.tp)};
  const bool across = leaves_domain(v.f, ring);
  const FabricLevel& level = v.f.levels[across ? 1 : 0];
  const double rate = level.bandwidth * level.share, block = 4 * v.m * kv_width;
  const double latency = v.f.levels.front().latency;
  const double merge = v.s.ring_merge_bytes * v.m * out_width / v.stream;  // rescaling the partial outputs
  w.forward[Term::context_parallel] +=
      (cp - 1) * (std::max(0.0, block / rate + latency - core.forward / cp) + v.s.ring_step_seconds + merge);
  w.input_gradient[Term::context_parallel] +=
      (cp - 1) * (std::max(0.0, 2 * block / rate + latency - core.backward / cp) + 2 * v.s.ring_step_seconds + merge);
  (void)set;
}

void add_core(const View& v, const Setting& set, const Shard& shard, Piece& p) {
  const Architecture& a = v.a;
  if (a.linear_attention_layers >= a.layers) return;
  const double share = 1 - double(a.linear_attention_layers) / double(a.layers);
  const double head = a.attention == AttentionKind::mla ? double(a.v_head) : double(a.head_dim);
  const double s = double(set.sequence);
  AttentionSeconds core;
  if (v.s.flash_attention) {
    const double flop = score_flop(a, shard.micro_batch, s) / v.tp / shard.cp;
    core = flash_attention_seconds(v.d, v.s, flop, s / shard.cp, head, set.precision != Precision::bf16);
  } else {
    core = unfused_attention_seconds(v.d, v.s, shard.micro_batch * double(a.heads) / v.tp * s * s / shard.cp, head);
  }
  core.forward *= share;
  core.backward *= share;
  p.core_attention = core.forward;
  p.work.forward[Term::attention] += core.forward;
  p.work.input_gradient[Term::attention] += core.backward;
  context_parallel_ring(v, set, shard, core, p.work);
}

void add_latent_attention(const View& v, Piece& p) {
  const Architecture& a = v.a;
  const double n = double(a.heads) / v.tp, qk = double(a.qk_nope + a.qk_rope);
  Work& w = p.work;
  double down = 0;
  if (a.q_lora > 0) {
    down += v.linear(w, Term::gemm, v.m, double(a.q_lora), double(a.hidden));
    p.latent_up += v.linear(w, Term::gemm, v.m, n * qk, double(a.q_lora));
  } else {
    down += v.linear(w, Term::gemm, v.m, n * qk, double(a.hidden));
  }
  down += v.linear(w, Term::gemm, v.m, double(a.kv_lora + a.qk_rope), double(a.hidden));
  p.latent_up += v.linear(w, Term::gemm, v.m, n * double(a.qk_nope + a.v_head), double(a.kv_lora));
  p.last_gemm = v.linear(w, Term::gemm, v.m, double(a.hidden), n * double(a.v_head));
  p.gemm_forward = down + p.latent_up + p.last_gemm;
  const double latents = double(a.q_lora + a.kv_lora + a.qk_rope), heads = n * (2 * qk + a.v_head);
  const double bytes = v.m * (v.s.latent_bytes * latents + v.s.latent_head_bytes * heads);
  v.pointwise(w, v.s.pointwise_factor, bytes, v.s.permute_backward * bytes);
  v.casts(w, 1, v.m * (2 * a.hidden / 1.0 + a.q_lora + a.kv_lora + n * a.v_head),
          v.m * (latents + n * (qk + a.qk_nope + a.v_head) + a.hidden));
}

void add_grouped_query_attention(const View& v, Piece& p) {
  const Architecture& a = v.a;
  const double width = attention_width(a) / v.tp;
  const double kv = double(a.kv_heads) * a.head_dim / std::min(v.tp, double(a.kv_heads));
  const double linear_share = double(a.linear_attention_layers) / double(a.layers);
  // Linear-attention layers project full-width q, k, v and a gate.
  const double qkv = (width + 2 * kv) * (1 - linear_share) + 4 * width * linear_share;
  const double in = v.linear(p.work, Term::gemm, v.m, qkv, double(a.hidden));
  p.last_gemm = v.linear(p.work, Term::gemm, v.m, double(a.hidden), width);
  p.gemm_forward = in + p.last_gemm;
  double bytes = v.s.rotary_bytes * v.m * (width + kv);
  if (a.qk_norm != QkNorm::none) bytes += v.s.qk_norm_bytes * v.m * (width + kv);
  v.pointwise(p.work, v.s.pointwise_factor, bytes, bytes);
  v.casts(p.work, 1, v.ms * a.hidden + v.m * width, v.m * qkv + v.ms * a.hidden);
}

}  // namespace

double local_tokens(const Setting& s, const Shard& shard) { return double(shard.micro_batch) * s.sequence / shard.cp; }
double split_tokens(const Setting& s, const Shard& shard) {
  return local_tokens(s, shard) / (s.cluster->stack.sequence_parallel ? shard.tp : 1);
}
double padded_vocabulary(const Architecture& a, int tp) {
  constexpr double kPad = 128;
  return std::ceil(a.vocabulary / (kPad * tp)) * kPad;
}

Piece projection_piece(const Setting& set, const Shard& shard) {
  const View v(set, shard);
  Piece p;
  if (v.a.attention == AttentionKind::mla)
    add_latent_attention(v, p);
  else
    add_grouped_query_attention(v, p);
  const double half = v.s.norm_residual_bytes / 2 * v.ms * v.a.hidden;  // one norm, one residual
  v.pointwise(p.work, v.s.pointwise_factor, half, half);
  p.norms = v.s.pointwise_factor * v.s.norm_bytes * v.ms * v.a.hidden / v.stream;
  v.tensor_parallel(p.work);
  return p;
}

Piece attention_piece(const Setting& set, const Shard& shard, const Piece& projections) {
  Piece p = projections;
  add_core(View(set, shard), set, shard, p);
  return p;
}

Piece dense_ffn_piece(const Setting& set, const Shard& shard) {
  const View v(set, shard);
  Piece p;
  const double f = double(v.a.dense_ffn) / v.tp, g = v.a.gated ? 2 : 1, h = double(v.a.hidden);
  const double in = v.linear(p.work, Term::gemm, v.m, g * f, h);
  p.last_gemm = v.linear(p.work, Term::gemm, v.m, h, f);
  p.gemm_forward = in + p.last_gemm;
  const double half = v.s.norm_residual_bytes / 2 * v.ms * h;
  v.pointwise(p.work, v.s.pointwise_factor, half + 2 * (g + 1) * v.m * f, half + 2 * (2 * g + 1) * v.m * f);
  p.norms = v.s.pointwise_factor * v.s.norm_bytes * v.ms * h / v.stream;
  v.casts(p.work, 1, v.ms * h + v.m * f, v.m * g * f + v.ms * h);
  v.tensor_parallel(p.work);
  return p;
}

namespace {

void add_shared_expert(const View& v, Piece& p) {
  const Architecture& a = v.a;
  const double f = double(a.shared_ffn) / v.tp, g = a.gated ? 2 : 1, h = double(a.hidden);
  Work w;
  p.shared_forward = v.linear(w, Term::gemm, v.m, g * f, h) + v.linear(w, Term::gemm, v.m, h, f);
  p.shared_backward = w.input_gradient[Term::gemm] + w.weight_gradient[Term::gemm];
  v.pointwise(w, v.s.moe_pointwise_factor, v.s.shared_activation_bytes * v.m * f, v.s.shared_activation_backward_bytes * v.m * f);
  v.casts(w, v.s.expert_cast_share, v.m * f, v.m * g * f);
  p.work += w;
}

// Routing, activation and casts: of `tokens` on the rank's experts, `elements` wide in all.
void add_expert_pointwise(const View& v, double tokens, double elements, Piece& p) {
  const Architecture& a = v.a;
  const Stack& s = v.s;
  const double h = double(a.hidden), g = a.gated ? 2 : 1;
  const double route = v.ms * (s.router_hidden_bytes * h + s.router_bytes * a.experts) + s.permute_bytes * v.ms * double(a.top_k) * h;
  v.pointwise(p.work, s.moe_pointwise_factor, route, s.permute_backward * route);
  const double forward = a.unfused_activation > 0 ? s.stepwise_activation_bytes : s.expert_activation_bytes;
  const double backward = a.unfused_activation > 0 ? s.stepwise_activation_backward_bytes : s.expert_activation_backward_bytes;
  v.pointwise(p.work, s.moe_pointwise_factor, forward * elements, backward * elements);
  p.activation = s.moe_pointwise_factor * forward * elements / v.stream;
  v.casts(p.work, s.expert_cast_share, tokens * h + elements, g * elements + tokens * h);
}

// Rows of an expert: tokens of its expert group that chose it.
double expert_rows(const View& v, const Shard& shard) {
  return double(shard.ep) * shard.etp * v.m * v.a.top_k / (v.tp * v.a.experts) * (1 + v.s.imbalance);
}

void add_routed_experts(const View& v, const Shard& shard, Piece& p) {
  const Architecture& a = v.a;
  const Stack& s = v.s;
  const double local = double(a.experts) / shard.ep, h = double(a.hidden), g = a.gated ? 2 : 1;
  const double fe = double(a.expert_ffn) / shard.etp;
  const double rows = std::max(1.0, std::round(expert_rows(v, shard)));
  const double tokens = rows * local;
  Work& w = p.work;
  auto linear = [&](double out, double in) {
    w.forward[Term::experts] += grouped_gemm_seconds(v.d, local, rows, out, in, v.ratio, v.bytes, 0);
    w.input_gradient[Term::experts] += grouped_gemm_seconds(v.d, local, rows, in, out, v.ratio, v.bytes, 0);
    w.weight_gradient[Term::experts] += grouped_gemm_seconds(v.d, local, out, in, rows, v.ratio, v.bytes, 2 * s.main_gradient_bytes);
  };
  linear(g * fe, h);
  linear(h, fe);
  p.local_experts = local;
  const double copies = double(a.top_k);
  add_expert_pointwise(v, tokens, tokens * fe, p);
  const double bytes = 2 * v.ms * h * (1 + s.imbalance);
  p.exchange = 2 * exchange_seconds(v.f, {double(shard.ep), double(shard.etp)}, bytes, copies, s.dispatcher);
  if (shard.etp > 1) p.exchange += 2 * ring_seconds(v.f, {double(shard.etp), 1}, 2 * tokens * h, 1);
}

// A whole layer's host time over both directions [s].
double host_seconds(const Stack& s, const Piece& ffn, bool moe, unsigned modules) {
  if (s.graph == GraphMode::full) return 0;
  const bool full = modules & kWholeLayer;
  const double captured = s.graph == GraphMode::partial ? s.graph_host_share : 1;
  if (!moe) return s.host_dense_layer_seconds * captured * (full ? s.host_recompute_layer : 1);
  const double launches = s.fused_experts ? 0 : ffn.local_experts * s.host_expert_seconds;
  return s.host_layer_seconds * captured * (full ? s.host_recompute_layer : 1) +
         launches * (full ? s.host_recompute_expert : 1);
}

// What recomputation adds before the backward.
Seconds recomputed(const Setting& set, const Piece& attention, const Piece& ffn, bool moe, unsigned modules,
                   double exchange) {
  const Stack& s = set.cluster->stack;
  Seconds r;
  if (modules & kWholeLayer) {
    Seconds all = attention.work.forward + ffn.work.forward;
    const double stop = s.early_stop ? s.early_stop_share * ffn.last_gemm : 0;
    r[Term::tensor_parallel] = all[Term::tensor_parallel];
    r[Term::context_parallel] = all[Term::context_parallel];
    r[Term::expert_exchange] = exchange;
    r[Term::recompute] = all.sum() - all[Term::tensor_parallel] - all[Term::context_parallel] - stop;
    return r;
  }
  double seconds = 0;
  if (modules & kCoreAttention && !s.flash_attention) seconds += attention.core_attention;
  if (modules & kLatentUp) seconds += attention.latent_up;
  if (modules & kSeparateNorms && (moe || set.architecture->attention == AttentionKind::mla)) seconds += ffn.norms;
  if (modules & kExpertActivation && moe) seconds += ffn.activation;
  if (modules & kSharedExperts && moe) seconds += ffn.shared_forward;
  if (modules & kDenseFfn && !moe) seconds += ffn.gemm_forward + ffn.work.forward[Term::pointwise];
  if (modules & kHalfMatmuls)
    seconds += 0.5 * (attention.gemm_forward + ffn.gemm_forward) + attention.work.forward[Term::pointwise] +
               ffn.work.forward[Term::pointwise];
  r[Term::recompute] = seconds;
  return r;
}

// A power-limited device clocks higher while other work than GEMMs runs: the sustained rate holds for a layer that is all
// GEMM, and rises with the share of its time that is not.
void relieve(const Device& d, Work& w, double host, unsigned modules) {
  if (d.power_relief <= 0) return;
  auto gemms = [](const Seconds& s) { return s[Term::gemm] + s[Term::experts]; };
  const double forward = w.forward.sum();
  const double inside = forward > 0 ? gemms(w.forward) / forward : 0;
  const double again = (modules & (kWholeLayer | kHalfMatmuls) ? inside : 1) * w.input_gradient[Term::recompute];
  const double busy = gemms(w.forward) + gemms(w.input_gradient) + gemms(w.weight_gradient) + again;
  const double total = std::max(w.sum(), host);
  if (total <= 0) return;
  const double factor = 1 / (1 + d.power_relief * (1 - std::min(1.0, busy / total)));
  for (Seconds* s : {&w.forward, &w.input_gradient, &w.weight_gradient}) {
    (*s)[Term::gemm] *= factor;
    (*s)[Term::experts] *= factor;
  }
  w.input_gradient[Term::recompute] -= again * (1 - factor);
}

}  // namespace

Piece beside_experts_piece(const Setting& set, const Shard& shard) {
  const View v(set, shard);
  Piece p;
  if (v.a.shared_ffn > 0) add_shared_expert(v, p);
  const double half = v.s.norm_residual_bytes / 2 * v.ms * v.a.hidden;
  v.pointwise(p.work, v.s.pointwise_factor, half, half);
  p.norms = v.s.pointwise_factor * v.s.norm_bytes * v.ms * v.a.hidden / v.stream;
  return p;
}

Piece expert_piece(const Setting& set, const Shard& shard, const Piece& beside) {
  Piece p = beside;
  add_routed_experts(View(set, shard), shard, p);
  return p;
}

Piece least_expert_piece(const Setting& set, const Shard& shard, const Piece& beside) {
  const View v(set, shard);
  const Architecture& a = v.a;
  // Rounding takes at most half a row, and a third where there is one or two.
  const double rows = expert_rows(v, {shard.tp, shard.cp, 1, 1, shard.micro_batch}), kept = rows > 1.5 ? 1 - 0.5 / rows : 2.0 / 3;
  const double tokens = kept * rows * double(a.experts), elements = tokens * double(a.expert_ffn);
  Piece p = beside;
  p.local_experts = 1;
  add_expert_pointwise(v, tokens, elements, p);
  // Full tiles and waves. Of the constant added to a GEMM's depth (the device's gemm_depth) etp only makes more.
  const double h = double(a.hidden), g = a.gated ? 2 : 1, flop_seconds = grouped_flop_seconds(v.d, v.ratio);
  const double over_width = 2 * elements * (h + v.d.gemm_depth);  // FLOP with the hidden width as depth
  const double constant = 2 * h * tokens * v.d.gemm_depth;
  p.work.forward[Term::experts] = flop_seconds * (g * over_width + 2 * h * elements + constant);
  p.work.input_gradient[Term::experts] = flop_seconds * (over_width + 2 * h * g * elements + constant);
  p.work.weight_gradient[Term::experts] = flop_seconds * 2 * h * (1 + g) * elements;
  return p;
}

Directions exposed_exchange(const Stack& s, const Piece& ffn, bool overlapped) {
  const double exposed = s.expert_overlap || overlapped ? 1 - s.expert_overlap_share : 1;
  Directions out{ffn.exchange, ffn.exchange};
  if (s.shared_overlap) {
    out.forward = std::max(s.exchange_floor * out.forward, out.forward - ffn.shared_forward);
    out.backward = std::max(s.exchange_floor * out.backward, out.backward - ffn.shared_backward);
  }
  return {exposed * out.forward, exposed * out.backward};
}

Directions layer_floor(const Setting& set, const Piece& attention, const Piece& ffn, bool moe, const Directions& exchange) {
  const Stack& s = set.cluster->stack;
  auto gemms = [](const Seconds& x) { return x[Term::gemm] + x[Term::experts]; };
  auto sums = [&](const Piece& p) { return Directions{p.work.forward.sum(), p.work.input_gradient.sum() + p.work.weight_gradient.sum()}; };
  auto busy_of = [&](const Piece& p) {
    return Directions{gemms(p.work.forward), gemms(p.work.input_gradient) + gemms(p.work.weight_gradient)};
  };
  const Directions a = sums(attention), f = sums(ffn), ga = busy_of(attention), gf = busy_of(ffn);
  const double forward = a.forward + f.forward + exchange.forward, total = forward + a.backward + f.backward + exchange.backward;
  const double busy = ga.forward + gf.forward + ga.backward + gf.backward;
  // The relieved time rises with both the GEMMs and the rest as long as the relief is below 1, and recomputation adds to
  // both: so it is least without.
  const double relief = set.cluster->device.power_relief, most = 1 / (1 + relief);
  const double factor = relief < 1 && total > 0 ? 1 / (1 + relief * (1 - busy / total)) : most;
  const double relieved = total - busy * (1 - factor), coolest = total - busy * (1 - most);
  const double host = std::min({1.0, s.host_recompute_layer, s.host_recompute_expert}) * host_seconds(s, ffn, moe, 0);
  const double serial = moe ? s.host_serial_share : 0;
  const double both = std::max(relieved, std::max(coolest, host) * (1 - serial) + serial * (coolest + host));
  const double least_forward = forward - (ga.forward + gf.forward) * (1 - most);
  return {least_forward, both - least_forward};
}

Work layer_work(const Setting& set, const Piece& attention, const Piece& ffn, bool moe, unsigned modules, bool overlapped) {
  const Stack& s = set.cluster->stack;
  Work w = attention.work;
  w += ffn.work;
  const Directions exchange = exposed_exchange(s, ffn, overlapped);
  w.forward[Term::expert_exchange] += exchange.forward;
  w.input_gradient[Term::expert_exchange] += exchange.backward;
  const double again = (s.expert_overlap || overlapped ? 1 - s.expert_overlap_share : 1) * ffn.exchange;
  w.input_gradient += recomputed(set, attention, ffn, moe, modules, again);
  const double host = host_seconds(s, ffn, moe, modules);
  relieve(set.cluster->device, w, host, modules);
  if (host <= 0) return w;
  // A third of the host's launches belong to the forward. The longer of host and device counts; MoE layers read token
  // counts back, so a share of the shorter one is serial.
  const double serial = moe ? s.host_serial_share : 0;
  auto wait = [&](double gpu, double launches) {
    return std::max(gpu, launches) + serial * std::min(gpu, launches) - gpu;
  };
  w.forward[Term::host] += wait(w.forward.sum(), host / 3);
  w.input_gradient[Term::host] += wait(w.input_gradient.sum() + w.weight_gradient.sum(), host * 2 / 3);
  return w;
}

Work embedding_work(const Setting& set, const Shard& shard) {
  const View v(set, shard);
  Work w;
  const double bytes = v.s.embedding_bytes / 2 * v.ms * v.a.hidden;
  w.forward[Term::head] += bytes / v.stream;
  w.input_gradient[Term::head] += bytes / v.stream;
  if (shard.tp > 1) {
    const double unit = ring_seconds(v.f, {v.tp, 1}, 2 * v.m * v.a.hidden, 1);
    w.forward[Term::tensor_parallel] += unit;
    w.input_gradient[Term::tensor_parallel] += unit;
  }
  return w;
}

Work head_work(const Setting& set, const Shard& shard) {
  const View v(set, shard);
  Work w;
  const double vocabulary = padded_vocabulary(v.a, shard.tp), h = double(v.a.hidden);
  const double width = v.s.operand_bytes_bf16;
  w.forward[Term::head] += gemm_seconds(v.d, v.m, vocabulary, h, 1, width);
  w.input_gradient[Term::head] += gemm_seconds(v.d, v.m, h, vocabulary, 1, width);
  w.weight_gradient[Term::head] += gemm_seconds(v.d, vocabulary, h, v.m, 1, width);
  const double loss = v.s.cross_entropy_passes * 4 * v.m * vocabulary / v.stream;
  w.forward[Term::head] += v.s.loss_forward_share * loss;
  w.input_gradient[Term::head] += (1 - v.s.loss_forward_share) * loss;
  if (shard.tp > 1) {
    const double unit = ring_seconds(v.f, {v.tp, 1}, 2 * v.m * h, 1);
    w.forward[Term::tensor_parallel] += unit;
    w.input_gradient[Term::tensor_parallel] += unit;
  }
  return w;
}

double stage_coupling(const Setting& set, const Shard& shard, int pp, const Work& moe_layer) {
  const Stack& s = set.cluster->stack;
  if (s.host_coupling_seconds <= 0 || shard.ep <= 1) return 0;
  const double total = moe_layer.sum();
  if (total <= 0) return 0;
  const double wait = moe_layer.forward[Term::host] + moe_layer.input_gradient[Term::host];
  const double idle = wait / total;  // share of the layer in which the device waits for its host
  return s.host_coupling_seconds * std::log2(1.0 + pp) * std::log2(double(shard.ep)) * idle * idle;
}

}  // namespace tessera
