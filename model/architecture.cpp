#include "tessera/architecture.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;  // above any width ever built; keeps products near 2^63

/// An integer whose sums and products throw instead of wrapping, so that a count is exact or refused.
struct Exact {
  std::int64_t value = 0;
  Exact(std::int64_t v) : value(v) {}  // NOLINT: an integer is exact
  [[noreturn]] static void overflow() {
    throw InputError("the parameter count is beyond 2^63", "it cannot be held exactly", "give smaller widths or fewer experts.");
  }
  Exact operator+(Exact other) const {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(value, other.value, &sum)) overflow();
    return sum;
  }
  Exact operator*(Exact other) const {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(value, other.value, &product)) overflow();
    return product;
  }
};

std::int64_t letters(const std::string& pattern, char letter) { return std::count(pattern.begin(), pattern.end(), letter); }

Exact norm_weights(const Architecture& a, Exact width) { return a.norm == NormKind::layer ? width * 2 : width; }

Exact ffn_matrices(const Architecture& a, Exact width) { return Exact(a.gated ? 3 : 2) * a.hidden * width; }

Exact ffn_biases(const Architecture& a, Exact width) {
  return a.ffn_bias && width.value > 0 ? Exact(a.gated ? 2 : 1) * width + a.hidden : Exact(0);
}

struct Tensors {
  Exact matrices = 0;  // what the law's rule counts
  Exact small = 0;     // biases, norms, sinks
};

/// All attention layers: latent (MLA), linear, and grouped-query with K/V projections where they are not shared.
Tensors attention_weights(const Architecture& a) {
  const Exact h = a.hidden, heads = a.heads, layers = a.attention_layer_count();
  Tensors sum;
  if (a.attention == AttentionKind::mla) {
    const Exact q_out = heads * (Exact(a.qk_nope) + a.qk_rope);
    const Exact query = a.q_lora > 0 ? h * a.q_lora + Exact(a.q_lora) * q_out : h * q_out;
    const Exact key_value = h * (Exact(a.kv_lora) + a.qk_rope) + Exact(a.kv_lora) * heads * (Exact(a.qk_nope) + a.v_head);
    sum.matrices = layers * (query + key_value + heads * a.v_head * h);
    sum.small = layers * (Exact(a.q_lora) + a.kv_lora + (a.out_bias ? h : Exact(0)));  // norms of the latents
    return sum;
  }
  const Exact width = heads * a.head_dim, kv_width = Exact(a.kv_heads) * a.head_dim;
  const Exact linear = a.linear_attention_layers, softmax = layers + Exact(-a.linear_attention_layers);
  const Exact kv_layers = a.kv_layer_count();
  sum.matrices = softmax * h * width * 2 + kv_layers * h * kv_width * 2 + linear * h * width * 5;
  sum.small = linear * width;
  if (a.qkv_bias) sum.small = sum.small + softmax * width + kv_layers * kv_width * 2;
  if (a.out_bias) sum.small = sum.small + softmax * h;
  if (a.qk_norm == QkNorm::per_head) sum.small = sum.small + (softmax + kv_layers) * a.head_dim;
  if (a.qk_norm == QkNorm::full_width) sum.small = sum.small + softmax * width + kv_layers * kv_width;
  if (a.attention_sinks) sum.small = sum.small + softmax * heads;
  return sum;
}

/// All Mamba-2 layers: in and out projections, depthwise convolution with bias, per-head A, D and dt bias, gated norm.
Tensors mamba_weights(const Architecture& a) {
  Tensors sum;
  if (a.mamba_layers == 0) return sum;
  const Exact layers = a.mamba_layers, inner = Exact(a.mamba_heads) * a.mamba_head_dim;
  const Exact state = Exact(a.mamba_groups) * a.mamba_state * 2;
  sum.matrices = layers * (Exact(a.hidden) * (inner * 2 + state + a.mamba_heads) + inner * a.hidden);
  sum.small = layers * ((inner + state) * (Exact(a.mamba_conv) + 1) + Exact(a.mamba_heads) * 3 + inner);
  return sum;
}

[[noreturn]] void refuse(const Architecture& a, const std::string& field, const std::string& value, const std::string& why,
                         const std::string& remedy) {
  throw InputError("architecture '" + a.name + "': " + field + " = " + value, why, remedy);
}

struct Bound {
  const char* field;
  std::int64_t value;
  std::int64_t least;
};

void check_each(const Architecture& a, std::initializer_list<Bound> bounds) {
  for (const Bound& bound : bounds) {
    if (bound.value < bound.least)
      refuse(a, bound.field, std::to_string(bound.value), "at least " + std::to_string(bound.least) + " is needed", "give a larger whole number.");
    if (bound.value > kLargest)
      refuse(a, bound.field, std::to_string(bound.value), "more than 2^40 is no width or count of a model", "give a smaller number.");
  }
}

void check_bounds(const Architecture& a) {
  const bool gqa = a.attention == AttentionKind::gqa, mla = !gqa, moe = a.is_moe(), mamba = a.mamba_layers > 0;
  const Bound bounds[] = {
      {"hidden", a.hidden, 1},
      {"heads", a.heads, 1},
      {"kv_heads", a.kv_heads, gqa ? 1 : 0},
      {"head_dim", a.head_dim, gqa ? 1 : 0},
      {"q_lora", a.q_lora, 0},
      {"kv_lora", a.kv_lora, mla ? 1 : 0},
      {"qk_nope", a.qk_nope, mla ? 1 : 0},
      {"qk_rope", a.qk_rope, 0},
      {"v_head", a.v_head, mla ? 1 : 0},
      {"dense_ffn", a.dense_ffn, a.ffn_layer_count() > a.moe_layer_count() ? 1 : 0},
      {"top_k", a.top_k, moe ? 1 : 0},
      {"expert_ffn", a.expert_ffn, moe ? 1 : 0},
      {"shared_ffn", a.shared_ffn, 0},
      {"vocabulary", a.vocabulary, 1},
      {"learned_positions", a.learned_positions, 0},
      {"mtp_layers", a.mtp_layers, 0},
      {"window", a.window, 0},
      {"linear_attention_layers", a.linear_attention_layers, 0},
      {"mamba_layers", a.mamba_layers, 0},
      {"mamba_heads", a.mamba_heads, mamba ? 1 : 0},
      {"mamba_head_dim", a.mamba_head_dim, mamba ? 1 : 0},
      {"mamba_state", a.mamba_state, mamba ? 1 : 0},
      {"mamba_groups", a.mamba_groups, mamba ? 1 : 0},
      {"mamba_conv", a.mamba_conv, mamba ? 1 : 0},
      {"norms_per_layer", a.norms_per_layer, 0},
      {"shared_kv_every", a.shared_kv_every, 1},
      {"extra_parameters", a.extra_parameters, 0},
      {"rung", a.rung, 0},
  };
  for (const Bound& bound : bounds) check_each(a, {bound});
}

void check_real(const Architecture& a, const char* field, double value, double least, double most) {
  if (!(value >= least && value <= most))  // also catches NaN
    refuse(a, field, std::to_string(value), "it must lie between " + std::to_string(least) + " and " + std::to_string(most),
           "give a number in that range.");
}

void check_attention(const Architecture& a) {
  if (a.attention == AttentionKind::gqa && a.heads % a.kv_heads != 0)
    refuse(a, "kv_heads", std::to_string(a.kv_heads), "it does not divide the " + std::to_string(a.heads) + " query heads",
           "give a divisor of heads.");
  if (a.attention == AttentionKind::mla && a.linear_attention_layers > 0)
    refuse(a, "linear_attention_layers", std::to_string(a.linear_attention_layers), "linear layers together with MLA are not defined",
           "set it to 0 or attention to \"gqa\".");
  if (a.linear_attention_layers > a.attention_layer_count())
    refuse(a, "linear_attention_layers", std::to_string(a.linear_attention_layers), "the model has fewer attention layers",
           "give at most that many.");
  if (a.shared_kv_every > 1 && (a.linear_attention_layers > 0 || a.attention == AttentionKind::mla))
    refuse(a, "shared_kv_every", std::to_string(a.shared_kv_every), "shared keys and values are defined for softmax GQA layers only",
           "set it to 1.");
  if (a.window_share > 0 && a.window == 0)
    refuse(a, "window_share", std::to_string(a.window_share), "window is 0, so no layer can use one", "give window in tokens too.");
}

void check_experts(const Architecture& a) {
  if (a.is_moe() && a.top_k > a.experts)
    refuse(a, "top_k", std::to_string(a.top_k), "a token cannot be routed to more than the " + std::to_string(a.experts) + " experts",
           "give top_k <= experts.");
  if (!a.is_moe() && (a.top_k > 0 || a.expert_ffn > 0 || a.shared_ffn > 0))
    refuse(a, "experts", "0", "top_k, expert_ffn or shared_ffn are given, which a dense model has not", "give experts, or leave them out.");
  if (a.dense_layers > a.layers)
    refuse(a, "dense_layers", std::to_string(a.dense_layers), "the model has " + std::to_string(a.layers) + " layers", "give at most that many.");
  if (a.is_moe() && a.moe_layer_count() == 0)
    refuse(a, "experts", std::to_string(a.experts), "no layer is a MoE layer", "lower dense_layers or moe_every, or leave experts out.");
}

void check_pattern(const Architecture& a) {
  if (a.pattern.empty()) {
    if (a.mamba_layers > 0)
      refuse(a, "mamba_layers", std::to_string(a.mamba_layers), "pattern does not say which layers they are", "give pattern too.");
    return;
  }
  if (static_cast<std::int64_t>(a.pattern.size()) != a.layers || a.pattern.find_first_not_of("*E-M") != std::string::npos)
    refuse(a, "pattern", '"' + a.pattern + '"', "one of the letters *, E, - and M is needed for each of the " + std::to_string(a.layers) + " layers",
           "give a letter per layer.");
  if (letters(a.pattern, 'M') != a.mamba_layers)
    refuse(a, "mamba_layers", std::to_string(a.mamba_layers), "pattern has " + std::to_string(letters(a.pattern, 'M')), "make both agree.");
  if (a.dense_layers != 0 || a.moe_every != 1)
    refuse(a, "pattern", '"' + a.pattern + '"', "dense_layers and moe_every say the same thing another way", "give one of them.");
  if (a.shared_kv_every != 1)
    refuse(a, "shared_kv_every", std::to_string(a.shared_kv_every), "it is not defined together with pattern", "set it to 1.");
  if (!a.is_moe() && letters(a.pattern, 'E') > 0)
    refuse(a, "experts", "0", "pattern has MoE layers", "give experts, top_k and expert_ffn.");
}

void check_fields(const Architecture& a) {
  // What decides how many layers are MoE comes first: other bounds depend on it.
  check_each(a, {{"layers", a.layers, 1}, {"moe_every", a.moe_every, 1}, {"dense_layers", a.dense_layers, 0}, {"experts", a.experts, 0}});
  check_pattern(a);
  check_bounds(a);
  check_attention(a);
  check_experts(a);
  check_real(a, "window_share", a.window_share, 0, 1);
  check_real(a, "unfused_activation", a.unfused_activation, 0, 1);
  check_real(a, "split", a.split, 1.0 / static_cast<double>(kLargest), static_cast<double>(kLargest));
}

ParameterCount count_checked(const Architecture& a) {
  const Exact h = a.hidden, moe = a.moe_layer_count(), dense = Exact(a.ffn_layer_count()) + Exact(-moe.value);
  const Tensors attention = attention_weights(a), mamba = mamba_weights(a);
  const Exact expert = ffn_matrices(a, a.expert_ffn), expert_bias = ffn_biases(a, a.expert_ffn);
  const Exact every_token = attention.matrices + mamba.matrices + dense * ffn_matrices(a, a.dense_ffn) + moe * ffn_matrices(a, a.shared_ffn);

  const Exact router = h * a.experts + (a.router_bias ? Exact(a.experts) : Exact(0)) + (a.shared_gate ? h : Exact(0));
  const Exact norms = norm_weights(a, h) * (Exact(a.layers) * a.norms_per_layer + 1);  // and the final norm
  const Exact small = attention.small + mamba.small + dense * ffn_biases(a, a.dense_ffn) + moe * (router + ffn_biases(a, a.shared_ffn)) +
                      norms + Exact(a.learned_positions) * h + (a.head_bias ? Exact(a.vocabulary) : Exact(0)) + a.extra_parameters;
  const Exact table = Exact(a.vocabulary) * h, tables = a.tied ? table : table * 2;

  ParameterCount count;
  count.non_embedding_total = (every_token + moe * a.experts * expert).value;
  count.non_embedding_active = (every_token + moe * a.top_k * expert).value;
  count.all_total = (Exact(count.non_embedding_total) + moe * a.experts * expert_bias + small + tables).value;
  count.all_active_without_embedding_and_head = (Exact(count.non_embedding_active) + moe * a.top_k * expert_bias + small).value;
  count.all_active = (Exact(count.all_active_without_embedding_and_head) + tables).value;
  count.all_active_without_input_embedding = (Exact(count.all_active_without_embedding_and_head) + table).value;
  return count;
}

std::int64_t whole(double value, const std::string& what, const std::string& remedy) {
  const double limit = static_cast<double>(kLargest);
  if (!(value >= 1 && value <= limit) || value != std::floor(value))
    throw InputError("ladder: " + what + " = " + std::to_string(value), "a whole number from 1 to 2^40 is needed", remedy);
  return static_cast<std::int64_t>(value);
}

/// The shortest text that reads back as the same number: 4, not 4.000000.
std::string plain(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

/// The spec that makes this rung again: q, experts, top_k, split, and whatever differs from the ladder's defaults.
std::string rung_name(const LadderRung& rung) {
  const LadderRung usual;
  std::string name = "ladder:q=" + std::to_string(rung.q) + ",experts=" + std::to_string(rung.experts);
  if (rung.experts > 0) name += ",top_k=" + std::to_string(rung.top_k) + ",split=" + plain(rung.split);
  const auto whole_key = [&](const char* key, std::int64_t LadderRung::*member) {
    if (rung.*member != usual.*member) name += std::string(",") + key + "=" + std::to_string(rung.*member);
  };
  const auto real_key = [&](const char* key, double LadderRung::*member) {
    if (rung.*member != usual.*member) name += std::string(",") + key + "=" + plain(rung.*member);
  };
  whole_key("vocabulary", &LadderRung::vocabulary);
  whole_key("kv_heads", &LadderRung::kv_heads);
  if (rung.experts > 0) whole_key("shared_experts", &LadderRung::shared_experts);
  if (rung.experts > 0) whole_key("dense_layers", &LadderRung::dense_layers);
  whole_key("head_dim", &LadderRung::head_dim);
  real_key("layers_per_rung", &LadderRung::layers_per_rung);
  real_key("heads_per_rung", &LadderRung::heads_per_rung);
  real_key("ffn_ratio", &LadderRung::ffn_ratio);
  if (rung.tied != usual.tied) name += rung.tied ? ",tied=true" : ",tied=false";
  return name;
}

}  // namespace

std::int64_t Architecture::moe_layer_count() const {
  if (!pattern.empty()) return letters(pattern, 'E');
  if (!is_moe()) return 0;
  return layers / moe_every - std::min(dense_layers, layers) / moe_every;
}

std::int64_t Architecture::attention_layer_count() const { return pattern.empty() ? layers : letters(pattern, '*'); }

std::int64_t Architecture::ffn_layer_count() const { return pattern.empty() ? layers : letters(pattern, 'E') + letters(pattern, '-'); }

std::int64_t Architecture::kv_layer_count() const {
  const std::int64_t own = attention_layer_count() - linear_attention_layers;
  return (own + shared_kv_every - 1) / shared_kv_every;
}

double ParameterCount::sparsity() const {
  if (non_embedding_total <= 0) return 0;
  return 1.0 - static_cast<double>(non_embedding_active) / static_cast<double>(non_embedding_total);
}

void check(const Architecture& a) {
  check_fields(a);
  count_checked(a);  // throws where the count leaves 64 bits
}

ParameterCount count_parameters(const Architecture& a) {
  check_fields(a);
  return count_checked(a);
}

double derived_split(const Architecture& a) {
  if (!a.is_moe() || a.expert_ffn <= 0) return 1.0;
  const double dense = a.dense_ffn > 0 ? static_cast<double>(a.dense_ffn) : LadderRung{}.ffn_ratio * static_cast<double>(a.hidden);
  return dense / static_cast<double>(a.expert_ffn);
}

Architecture ladder(const LadderRung& rung) {
  Architecture a;
  if (rung.q < 1 || rung.q > kLargest)
    throw InputError("ladder: q = " + std::to_string(rung.q), "a rung is a whole number of at least 1", "give q, e.g. ladder:q=12.");
  if (rung.experts < 0 || rung.shared_experts < 0 || rung.experts > kLargest || rung.shared_experts > kLargest)
    throw InputError("ladder: experts = " + std::to_string(rung.experts) + ", shared_experts = " + std::to_string(rung.shared_experts),
                     "counts lie between 0 and 2^40", "give whole numbers of at least 0.");
  const auto q = static_cast<double>(rung.q);
  a.rung = rung.q;
  a.layers = whole(rung.layers_per_rung * q, "layers_per_rung * q", "change layers_per_rung or q.");
  a.heads = whole(rung.heads_per_rung * q, "heads_per_rung * q", "change heads_per_rung or q.");
  a.kv_heads = rung.kv_heads;
  a.head_dim = whole(static_cast<double>(rung.head_dim), "head_dim", "give head_dim, e.g. 128.");
  a.hidden = whole(static_cast<double>(a.heads) * static_cast<double>(a.head_dim), "hidden = heads * head_dim", "lower q or head_dim.");
  a.dense_ffn = whole(rung.ffn_ratio * static_cast<double>(a.hidden), "dense_ffn = ffn_ratio * hidden", "change ffn_ratio.");
  a.vocabulary = rung.vocabulary;
  a.tied = rung.tied;
  a.name = rung_name(rung);
  if (rung.experts > 0) {
    a.experts = rung.experts;
    a.top_k = rung.top_k;
    a.split = rung.split;
    a.expert_ffn = whole(static_cast<double>(a.dense_ffn) / rung.split, "expert_ffn = dense_ffn / split", "give a split that divides the FFN width.");
    a.shared_ffn = (Exact(rung.shared_experts) * a.expert_ffn).value;
    a.dense_layers = rung.dense_layers;
  }
  check(a);
  return a;
}

std::string_view to_string(AttentionKind kind) { return kind == AttentionKind::gqa ? "gqa" : "mla"; }
std::string_view to_string(NormKind kind) { return kind == NormKind::rms ? "rms" : "layer"; }
std::string_view to_string(QkNorm kind) {
  return kind == QkNorm::none ? "none" : kind == QkNorm::per_head ? "per_head" : "full_width";
}

}  // namespace tessera
