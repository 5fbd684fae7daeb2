#include "model/layer_memory.hpp"

#include <algorithm>
#include <cmath>

#include "model/recompute.hpp"

namespace tessera {
namespace {

constexpr double kHalf = 2, kSingle = 4;             // bytes of a 16- and a 32-bit number

double kv_share(const Architecture& a, double tp) { return double(a.kv_heads) * a.head_dim / std::min(tp, double(a.kv_heads)); }
double query_width(const Architecture& a) { return double(a.heads) * a.head_dim; }

// Weights of attention: divided by tp, and whole on every rank.
void attention_parameters(const Architecture& a, double tp, double& sharded, double& whole) {
  const double h = double(a.hidden), n = double(a.heads);
  if (a.attention == AttentionKind::mla) {
    const double qk = double(a.qk_nope + a.qk_rope);
    sharded = (a.q_lora > 0 ? double(a.q_lora) : h) * n * qk / tp + a.kv_lora * n * double(a.qk_nope + a.v_head) / tp +
              n * a.v_head * h / tp;
    whole = (a.q_lora > 0 ? h * a.q_lora : 0) + h * double(a.kv_lora + a.qk_rope) + double(a.q_lora + a.kv_lora);
    return;
  }
  const double full = h * query_width(a) / tp;
  sharded = 2 * full + 2 * h * kv_share(a, tp);
  whole = a.out_bias ? h : 0;
  if (a.qkv_bias) sharded += query_width(a) / tp + 2 * kv_share(a, tp);
}

// Bytes of a saved input of a linear.
double input_bytes(const Setting& set) {
  const Stack& s = set.cluster->stack;
  return set.precision != Precision::bf16 && s.eight_bit_inputs ? s.eight_bit_input_bytes : kHalf;
}

double saved_attention(const Setting& set, const Shard& shard, unsigned modules, bool recompute_norms) {
  const Architecture& a = *set.architecture;
  const Stack& s = set.cluster->stack;
  const double m = local_tokens(set, shard), ms = split_tokens(set, shard), t = shard.tp, h = double(a.hidden);
  const bool mla = a.attention == AttentionKind::mla;
  double bytes = kHalf * h * ms;                                           // layer input
  if (!(mla && recompute_norms)) bytes += input_bytes(set) * h * ms;       // output of norm 1
  double out;
  if (mla) {
    bytes += (4.0 * a.q_lora + 4.0 * a.kv_lora + 2.0 * (a.kv_lora + a.qk_rope)) * ms;
    const double n = double(a.heads);
    if (!(modules & kLatentUp)) bytes += kHalf * m * n * (2.0 * (a.qk_nope + a.qk_rope) + a.v_head) / t;
    out = kHalf * m * n * a.v_head / t;
  } else {
    bytes += kHalf * m * query_width(a) / t + 2 * kHalf * m * kv_share(a, t);
    out = kHalf * m * query_width(a) / t;
  }
  bytes += out * (shard.cp > 1 ? 2 : 1) + kSingle * m * a.heads / t;        // output (twice under cp), log-sum-exp
  if (!s.flash_attention && !(modules & kCoreAttention))
    bytes += set.cluster->stack.score_saved_bytes * shard.micro_batch * double(a.heads) / t * double(set.sequence) * set.sequence / shard.cp;
  return bytes + kHalf * h * ms;                                           // input of norm 2
}

double saved_ffn(const Setting& set, const Shard& shard, bool moe, unsigned modules, bool recompute_norms) {
  const Architecture& a = *set.architecture;
  const double m = local_tokens(set, shard), ms = split_tokens(set, shard), t = shard.tp, h = double(a.hidden);
  const double g = a.gated ? 2 : 1;
  if (!moe) {
    double bytes = input_bytes(set) * h * ms;
    if (!(modules & kDenseFfn)) bytes += (kHalf * g + input_bytes(set)) * a.dense_ffn * m / t;
    return bytes;
  }
  const double rows = shard.etp * m * a.top_k / t * (1 + set.cluster->stack.imbalance);
  const double fe = double(a.expert_ffn) / shard.etp;
  const double in = input_bytes(set);
  double bytes = recompute_norms ? 0 : kHalf * h * ms;                     // output of norm 2, also the router's input
  bytes += set.cluster->stack.router_saved_bytes * a.experts * ms + set.cluster->stack.row_saved_bytes * rows + in * h * rows + kHalf * g * fe * rows;
  if (!(modules & kExpertActivation)) bytes += in * fe * rows;
  if (!(modules & kSharedExperts)) bytes += (kHalf * g + in) * a.shared_ffn * m / t;
  return bytes;
}

double saved_bytes(const Setting& set, const Shard& shard, bool moe, unsigned modules) {
  if (modules & kWholeLayer) return kHalf * split_tokens(set, shard) * set.architecture->hidden;
  const bool norms = modules & kSeparateNorms;
  const double whole = saved_attention(set, shard, modules, norms) + saved_ffn(set, shard, moe, modules, norms);
  if (!(modules & kHalfMatmuls)) return whole;
  // Op-wise selection keeps the layer input, every second matrix product and the attention output.
  const Architecture& a = *set.architecture;
  const double m = local_tokens(set, shard), t = shard.tp, g = a.gated ? 2 : 1;
  const double ffn = moe ? shard.etp * m * a.top_k / t * (g * a.expert_ffn / shard.etp + a.hidden)
                         : m * (g * a.dense_ffn / t + a.hidden);
  const double products = kHalf * (m * (query_width(a) / t + 2 * kv_share(a, t) + a.hidden) + ffn);
  return std::min(whole, kHalf * split_tokens(set, shard) * a.hidden + products / 2 + kHalf * m * query_width(a) / t);
}

double backward_bytes(const Setting& set, const Shard& shard, bool moe) {
  const Architecture& a = *set.architecture;
  const double m = local_tokens(set, shard), ms = split_tokens(set, shard), t = shard.tp, h = double(a.hidden);
  const double g = a.gated ? 2 : 1;
  double bytes = kHalf * h * ms;
  if (moe) {
    const double rows = shard.etp * m * a.top_k / t * (1 + set.cluster->stack.imbalance);
    const double fe = double(a.expert_ffn) / shard.etp;
    bytes += std::max(kHalf * g * fe * rows + kHalf * h * rows, 2 * kHalf * h * rows);
  } else {
    bytes += kHalf * g * a.dense_ffn * m / t;
  }
  if (shard.tp > 1 && set.cluster->stack.sequence_parallel) bytes += kHalf * h * m;
  if (!set.cluster->stack.wgrad_fusion) bytes += 2 * kHalf * h * ms;  // autograd holds a layer's output and its gradient
  if (!set.cluster->stack.flash_attention)
    bytes += set.cluster->stack.score_saved_bytes * shard.micro_batch * double(a.heads) / t * double(set.sequence) * set.sequence / shard.cp;
  return bytes;
}

double attention_shapes(const Architecture& a, const Shard& shard) {
  const double t = shard.tp, h = double(a.hidden), n = double(a.heads);
  double sum = 0;
  if (a.attention == AttentionKind::mla) {
    const double qk = double(a.qk_nope + a.qk_rope);
    sum += h * a.q_lora + (a.q_lora > 0 ? double(a.q_lora) : h) * n * qk / t + h * double(a.kv_lora + a.qk_rope) +
           a.kv_lora * n * double(a.qk_nope + a.v_head) / t + n * a.v_head * h / t;
  } else {
    sum += h * (query_width(a) / t + 2 * kv_share(a, t)) + query_width(a) / t * h;
  }
  return sum;
}

double ffn_shapes(const Architecture& a, const Shard& shard, bool moe) {
  const double t = shard.tp, h = double(a.hidden), g = a.gated ? 2 : 1;
  if (moe) return (g + 1) * h * a.expert_ffn / shard.etp + (g + 1) * h * a.shared_ffn / t;
  return (g + 1) * h * a.dense_ffn / t;
}

// Elements of the largest weight of a layer whose gradient is accumulated by its GEMM.
double largest_shape(const Architecture& a, const Shard& shard, bool moe) {
  const double t = shard.tp, h = double(a.hidden), g = a.gated ? 2 : 1;
  const double in = a.attention == AttentionKind::mla ? h * double(a.heads) * a.v_head / t : h * (query_width(a) / t + 2 * kv_share(a, t));
  const double ffn = moe ? g * h * std::max(double(a.expert_ffn) / shard.etp, double(a.shared_ffn) / t) : g * h * a.dense_ffn / t;
  return std::max(in, ffn);
}

// Inputs of the linears and gradients of their outputs: what is left to hold between the two halves of a split
// backward.
double weight_inputs(const Setting& set, const Shard& shard, bool moe) {
  const Architecture& a = *set.architecture;
  const double m = local_tokens(set, shard), ms = split_tokens(set, shard), t = shard.tp, h = double(a.hidden);
  const double g = a.gated ? 2 : 1;
  double elements = 2 * h * ms + m * (2 * query_width(a) / t + 2 * kv_share(a, t)) + h * ms;
  if (moe) {
    const double rows = shard.etp * m * a.top_k / t;
    elements += rows * (2 * h + (g + 1) * a.expert_ffn / shard.etp) + (g + 1) * a.shared_ffn * m / t;
  } else {
    elements += (g + 1) * a.dense_ffn * m / t + h * ms;
  }
  return kHalf * elements;
}

}  // namespace

double expert_parameters(const Architecture& a, int ep, int etp) {
  const double matrices = a.gated ? 3 : 2;
  return double(a.experts) / ep * matrices * double(a.hidden) * a.expert_ffn / etp;
}

LayerParameters layer_parameters(const Architecture& a, const Shard& shard, bool moe) {
  const double t = shard.tp, h = double(a.hidden), matrices = a.gated ? 3 : 2;
  double sharded = 0, whole = 0;
  attention_parameters(a, t, sharded, whole);
  whole += a.norms_per_layer * h * (a.norm == NormKind::layer ? 2 : 1);
  LayerParameters p;
  if (moe) {
    sharded += matrices * h * a.shared_ffn / t;
    whole += h * a.experts;
    p.expert = expert_parameters(a, shard.ep, shard.etp);
  } else {
    sharded += matrices * h * a.dense_ffn / t;
  }
  p.dense = sharded + whole;
  return p;
}

double embedding_parameters(const Architecture& a, int tp) { return padded_vocabulary(a, tp) * a.hidden; }

LayerMemory layer_memory(const Setting& set, const Shard& shard, bool moe, unsigned modules) {
  LayerMemory l;
  l.parameters = layer_parameters(*set.architecture, shard, moe);
  l.saved = saved_bytes(set, shard, moe, modules);
  l.saved_whole = saved_bytes(set, shard, moe, 0);
  l.weight_inputs = std::min(weight_inputs(set, shard, moe), l.saved_whole);
  l.backward = backward_bytes(set, shard, moe) + (l.saved_whole - l.saved);
  const Stack& s = set.cluster->stack;
  if (s.wgrad_fusion && !s.wgrad_buffers_kept) l.backward += kHalf * largest_shape(*set.architecture, shard, moe);
  if (s.wgrad_fusion && s.wgrad_buffers_kept) {
    l.attention_buffers = kHalf * attention_shapes(*set.architecture, shard);
    l.buffers = l.attention_buffers + kHalf * ffn_shapes(*set.architecture, shard, moe);
  }
  return l;
}

double head_memory(const Setting& set, const Shard& shard) {
  const Architecture& a = *set.architecture;
  const Stack& s = set.cluster->stack;
  const double m = local_tokens(set, shard), ms = split_tokens(set, shard), h = double(a.hidden);
  const double vocabulary = padded_vocabulary(a, shard.tp);
  const bool gathered = shard.tp > 1 && s.sequence_parallel;
  return 2 * kHalf * h * ms + s.loss_bytes_per_logit * m * vocabulary +
         (s.wgrad_fusion ? kHalf * vocabulary * h : 0) + kHalf * h * m * (gathered ? 2 : 1);
}

double embedding_memory(const Setting& set, const Shard& shard) {
  return kHalf * padded_vocabulary(*set.architecture, shard.tp) * set.architecture->hidden;
}

}  // namespace tessera
