// An architecture: the geometry of a decoder-only transformer, dense or sparse (Mixture of Experts), and its
// exact parameter counts. Widths are in elements, counts are integers. A plain value: build it by hand, by
// ladder(), or from a preset, file or Hugging Face config.json (io/architecture_reader.hpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class AttentionKind : std::uint8_t { gqa, mla };           ///< MHA is gqa with kv_heads == heads
enum class NormKind : std::uint8_t { rms, layer };              ///< rms: h weights; layer: 2h (scale and bias)
enum class QkNorm : std::uint8_t { none, per_head, full_width };  ///< weights: head_dim each, or whole width

struct Architecture {
  std::string name;    ///< preset name, or what was asked for; labels results

  std::int64_t layers = 0;    ///< layers, without multi-token-prediction (MTP) modules
  std::int64_t hidden = 0;    ///< residual width
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< key/value heads
  std::int64_t head_dim = 0;  ///< width of a head (gqa)

  AttentionKind attention = AttentionKind::gqa;
  std::int64_t q_lora = 0, kv_lora = 0;                ///< MLA latent widths; q_lora 0: queries not compressed
  std::int64_t qk_nope = 0, qk_rope = 0, v_head = 0;   ///< MLA head widths

  std::int64_t dense_ffn = 0;  ///< width of a dense FFN
  bool gated = true;           ///< gated FFN (3 matrices) or not (2)

  std::int64_t experts = 0;     ///< routed experts of a MoE layer; 0: dense model
  std::int64_t top_k = 0;       ///< routed experts per token
  std::int64_t expert_ffn = 0;  ///< width of one routed expert
  std::int64_t shared_ffn = 0;  ///< total width of the shared experts of a layer; 0: none
  std::int64_t dense_layers = 0;  ///< the first k layers are dense
  std::int64_t moe_every = 1;     ///< of the rest, layer i is MoE iff i % moe_every == moe_every - 1

  std::int64_t vocabulary = 0;
  bool tied = false;                      ///< embedding and head share their matrix
  std::int64_t learned_positions = 0;     ///< rows of a learned position embedding; 0: none (RoPE)
  std::int64_t mtp_layers = 0;            ///< multi-token-prediction modules (costed, not in `layers`)

  std::int64_t window = 0;                ///< sliding-window (or chunk) width in tokens; 0: none
  double window_share = 0.0;              ///< share of the layers that use the window, 0..1
  std::int64_t linear_attention_layers = 0;  ///< layers with linear (lightning) instead of softmax attention:
                                             ///< q, k, v, output gate and output of heads*head_dim, and a norm

  // Hybrid models whose layers hold one part each (attention, FFN or state space) instead of attention + FFN.
  std::string pattern;            ///< one letter per layer: '*' attention, 'E' MoE, '-' dense FFN, 'M' Mamba-2;
                                  ///< empty: every layer is attention + FFN. Replaces dense_layers and moe_every
  std::int64_t mamba_layers = 0;  ///< 'M' in pattern (counted in parameters, not costed)
  std::int64_t mamba_heads = 0, mamba_head_dim = 0, mamba_state = 0, mamba_groups = 0, mamba_conv = 0;

  // Small tensors, for exact counts.
  NormKind norm = NormKind::rms;
  std::int64_t norms_per_layer = 2;
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false, out_bias = false, ffn_bias = false, router_bias = false, head_bias = false;
  bool shared_gate = false;      ///< a gate of `hidden` weights on the shared expert
  bool attention_sinks = false;  ///< one weight per head and layer
  std::int64_t shared_kv_every = 1;  ///< cross-layer attention: layers 0, n, 2n, ... have K/V projections
  std::int64_t extra_parameters = 0;  ///< parameters of parts no field describes, counted in all_total and all_active
  double unfused_activation = 0.0;   ///< 1: the activation runs op by op (clamped, biased GLU); 0: fused

  std::int64_t rung = 0;   ///< q of the ladder; 0: not of a ladder
  double split = 1.0;      ///< split factor G = dense-equivalent FFN width / expert_ffn (law axis)
  std::string left_out;    ///< parts of the published model that are not counted (vision encoder, MTP, ...)
  std::string source;      ///< where the geometry was published; empty: given by the user

  bool is_moe() const { return experts > 0; }
  /// Is layer `i` (0-based) a MoE layer?
  bool moe_layer(std::int64_t i) const {
    if (!pattern.empty()) return pattern[static_cast<std::size_t>(i)] == 'E';
    return is_moe() && i >= dense_layers && i % moe_every == moe_every - 1;
  }
  /// Does layer `i` have attention? (All have, unless `pattern` says otherwise.)
  bool attention_layer(std::int64_t i) const { return pattern.empty() || pattern[static_cast<std::size_t>(i)] == '*'; }
  /// Does layer `i` have an FFN, dense or MoE?
  bool ffn_layer(std::int64_t i) const {
    return pattern.empty() || pattern[static_cast<std::size_t>(i)] == 'E' || pattern[static_cast<std::size_t>(i)] == '-';
  }
  std::int64_t moe_layer_count() const;        ///< in closed form: the number of layers may be anything
  std::int64_t attention_layer_count() const;  ///< softmax and linear attention together
  std::int64_t ffn_layer_count() const;        ///< dense and MoE together
  std::int64_t kv_layer_count() const;         ///< attention layers that have K/V projections of their own

  bool operator==(const Architecture&) const = default;
};

/// Exact parameter counts. `non_embedding_*` follow the counting rule of the joint law (attention, FFN, expert
/// and state-space matrices only; no embedding, head, router, shared-expert gate, bias or norm weights):
///   attn = h*(heads + 2*kv_heads + heads)*head_dim, ffn(f) = (gated ? 3 : 2)*h*f,
///   N_tot = L*attn + dense*ffn(dense_ffn) + moe*(ffn(shared_ffn) + E*ffn(expert_ffn)), N_act with K for E.
/// MTP modules are in none of them. A tied matrix is counted once, as the head. "Embedding" and "head" are the
/// vocabulary x hidden matrices alone: learned positions and a head's bias stay in every `all_*` count.
/// Source: arXiv 2608.10605 (rule of the ladder's counts); all_*: the published checkpoints' tensors.
struct ParameterCount {
  std::int64_t non_embedding_total = 0, non_embedding_active = 0;
  std::int64_t all_total = 0;                        ///< every stored weight
  std::int64_t all_active = 0;                       ///< weights one token meets, input embedding included
  std::int64_t all_active_without_input_embedding = 0;
  std::int64_t all_active_without_embedding_and_head = 0;
  double sparsity() const;                           ///< S = 1 - N_act/N_tot of the non-embedding counts
};

/// Counts of an architecture. Pure. Throws InputError where the geometry is inconsistent (see check()).
ParameterCount count_parameters(const Architecture&);

/// Throws InputError naming the first inconsistent field: non-positive widths, top_k > experts, heads not a
/// multiple of kv_heads, MoE without expert width, values beyond 2^40, a total beyond 2^63, and so on.
void check(const Architecture&);

/// Parameters of the geometry ladder (domain.md section 2).
struct LadderRung {
  std::int64_t q = 12, experts = 96, top_k = 2;
  double split = 4;
  std::int64_t vocabulary = 257536, kv_heads = 8, shared_experts = 1, dense_layers = 1, head_dim = 128;
  double layers_per_rung = 4, heads_per_rung = 4, ffn_ratio = 2.5;  ///< layers = 4q, heads = 4q, d_ff = 2.5 d
  bool tied = false;
};

/// The architecture of a rung. experts == 0 gives the dense model of the rung. Its name is the spec that makes it
/// again ("ladder:q=12,experts=96,top_k=2,split=4", then the keys that differ from the defaults above).
/// Throws InputError where widths are not whole numbers or top_k > experts.
Architecture ladder(const LadderRung&);

/// Split factor G of a geometry: dense_ffn / expert_ffn, or where the model has no dense FFN the ladder's
/// dense-equivalent width ffn_ratio*hidden / expert_ffn. 1 for a dense model. The law's axis.
double derived_split(const Architecture&);

std::string_view to_string(AttentionKind);
std::string_view to_string(NormKind);
std::string_view to_string(QkNorm);

}  // namespace tessera
