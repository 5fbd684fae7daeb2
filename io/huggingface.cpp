#include "io/huggingface.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "io/architecture_reader.hpp"
#include "io/json_config.hpp"
#include "io/text_file.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

void leave_out(Architecture& a, const std::string& part) { a.left_out += (a.left_out.empty() ? "" : "; ") + part; }

/// One number where some files have a list per layer; a list of different numbers has no single geometry.
std::int64_t even(const JsonConfig& c, JsonConfig::Names names, std::int64_t fallback) {
  const auto list = c.integers(names);
  if (list.empty()) return fallback;
  if (std::any_of(list.begin(), list.end(), [&](auto value) { return value != list.front(); }))
    throw InputError(c.where(*names.begin()) + ": layers of different shape", "one number describes every layer here",
                     "write the architecture as TOML with the even shape that comes nearest.");
  return list.front();
}

/// The fields nearly every family has, under the names the families give them.
/// `layers` is the number of layers where the family says it another way; 0: by its key.
Architecture common(const JsonConfig& c, std::int64_t layers = 0) {
  Architecture a;
  a.layers = layers > 0 ? layers : c.integer({"num_hidden_layers", "n_layers", "n_layer", "num_layers"});
  a.hidden = c.integer({"hidden_size", "d_model", "n_embd"});
  a.heads = c.integer({"num_attention_heads", "n_heads", "n_head"});
  a.kv_heads = c.integer({"num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num"}, a.heads);
  a.head_dim = c.integer({"head_dim", "attention_head_dim", "kv_channels"}, 0);
  a.vocabulary = c.integer({"vocab_size", "padded_vocab_size"});
  a.tied = c.flag({"tie_word_embeddings"}, false);
  a.dense_ffn = even(c, {"intermediate_size", "ffn_hidden_size", "n_inner"}, 0);
  a.qkv_bias = c.flag({"attention_bias", "qkv_bias", "add_qkv_bias"}, false);
  a.ffn_bias = c.flag({"mlp_bias"}, false);
  a.mtp_layers = c.integer({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0);
  if (a.mtp_layers > 0) leave_out(a, "multi-token-prediction module (" + std::to_string(a.mtp_layers) + (a.mtp_layers == 1 ? " layer)" : " layers)"));
  const std::string act = c.text({"hidden_act", "mlp_hidden_act", "hidden_activation", "activation_function"}, "silu");
  a.gated = act != "relu" && act != "relu2";
  return a;
}

void latent_attention(Architecture& a, const JsonConfig& c) {
  if (!c.has({"kv_lora_rank"})) return;
  a.attention = AttentionKind::mla;
  a.q_lora = c.integer({"q_lora_rank"}, 0);
  a.kv_lora = c.integer({"kv_lora_rank"});
  a.qk_nope = c.integer({"qk_nope_head_dim"});
  a.qk_rope = c.integer({"qk_rope_head_dim"});
  a.v_head = c.integer({"v_head_dim"});
  a.head_dim = 0;
}

/// Which layers are MoE: a period, the first k dense, or a list that says the same.
void moe_placement(Architecture& a, const JsonConfig& c) {
  a.dense_layers = c.integer({"first_k_dense_replace"}, 0);
  a.moe_every = c.integer({"decoder_sparse_step", "interleave_moe_layer_step"}, 1);
  if (c.has({"expert_layer_period"})) {
    a.moe_every = c.integer({"expert_layer_period"});
    if (c.integer({"expert_layer_offset"}, 0) != a.moe_every - 1)
      throw InputError(c.where("expert_layer_offset") + ": not expert_layer_period - 1", "the last layer of a period is the MoE layer here",
                       "write the architecture as TOML with moe_every and dense_layers.");
  }
  auto pattern = c.integers({"moe_layer_freq"});
  if (pattern.size() == 1 && pattern.front() > 1)
    throw InputError(c.where("moe_layer_freq") + ": " + std::to_string(pattern.front()), "layers 0, n, 2n would be MoE, which no preset's rule places",
                     "write the architecture as TOML with moe_every.");
  if (pattern.size() > 1) {  // 0 dense, 1 MoE, a value per layer
    const auto first_moe = std::find(pattern.begin(), pattern.end(), 1);
    if (std::any_of(first_moe, pattern.end(), [](auto value) { return value != 1; }))
      throw InputError(c.where("moe_layer_freq") + ": dense layers after MoE layers", "only the first layers may be dense in a list", "write the architecture as TOML.");
    a.dense_layers = first_moe - pattern.begin();
  }
  const auto dense = c.integers({"mlp_only_layers"});
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != static_cast<std::int64_t>(i) || a.moe_every != 1)
      throw InputError(c.where("mlp_only_layers") + ": not the first layers", "only the first layers may be dense in a list", "write the architecture as TOML.");
  if (!dense.empty()) a.dense_layers = static_cast<std::int64_t>(dense.size());
}

/// Routed and shared experts. Where no width of their own is given, intermediate_size is the expert's.
void expert_layers(Architecture& a, const JsonConfig& c) {
  a.experts = even(c, {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}, 0);
  if (a.experts <= 1) {  // one expert is a dense FFN in every family that allows it
    if (a.experts == 1) a.experts = 0;
    return;
  }
  a.top_k = even(c, {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "num_selected_experts", "moe_top_k", "moe_topk", "moe_k", "top_k_experts"}, 0);
  if (a.top_k == 0) c.integer({"num_experts_per_tok", "moe_top_k", "moe_topk"});  // missing: says so
  a.expert_ffn = even(c, {"moe_intermediate_size", "expert_ffn_hidden_size"}, 0);
  moe_placement(a, c);
  if (a.expert_ffn == 0) {
    a.expert_ffn = c.integer({"intermediate_size", "ffn_hidden_size"});
    if (a.dense_layers == 0 && a.moe_every == 1) a.dense_ffn = 0;
  }
  const std::int64_t shared = even(c, {"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"}, 0);
  a.shared_ffn = c.integer({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"}, shared * a.expert_ffn);
}

void sliding_window(Architecture& a, const JsonConfig& c) {
  const std::int64_t width = c.integer({"sliding_window"}, 0);
  if (width <= 0 || !c.flag({"use_sliding_window"}, true)) return;
  const auto types = c.texts({"layer_types"});
  const auto sliding = std::count(types.begin(), types.end(), "sliding_attention");
  const double share = types.empty() ? 1.0 : static_cast<double>(sliding) / static_cast<double>(types.size());
  // A window as wide as the longest context hides nothing.
  if (share == 0 || width >= c.integer({"max_position_embeddings"}, std::numeric_limits<std::int64_t>::max())) return;
  a.window = width;
  a.window_share = share;
}

/// Parts that would be miscounted without a word.
void name_what_is_missing(Architecture& a, const JsonConfig& c) {
  if (c.has({"moe_latent_size"}))
    throw InputError(c.where("moe_latent_size") + ": experts on a narrower latent", "an expert's matrices are taken as hidden x width here",
                     "write the architecture as TOML with the expert_ffn of equal parameters.");
  if (c.has({"index_topk"})) leave_out(a, "sparse-attention indexer");
  if (c.has({"linear_attn_config", "linear_num_value_heads"})) leave_out(a, "linear-attention layers are counted as softmax attention");
  if (c.has({"global_head_dim"})) leave_out(a, "attention layers of another head width are counted as head_dim");
}

Architecture generic(const JsonConfig& c, std::int64_t layers = 0) {
  Architecture a = common(c, layers);
  latent_attention(a, c);
  expert_layers(a, c);
  sliding_window(a, c);
  name_what_is_missing(a, c);
  return a;
}

using Family = Architecture (*)(const JsonConfig&);

Architecture llama(const JsonConfig& c) {
  Architecture a = generic(c);
  a.out_bias = a.qkv_bias;
  return a;
}
Architecture qwen2(const JsonConfig& c) {
  Architecture a = generic(c);
  a.qkv_bias = c.flag({"qkv_bias"}, true);
  a.shared_gate = a.shared_ffn > 0;
  if (!c.flag({"use_sliding_window"}, false)) a.window = 0, a.window_share = 0;
  return a;
}
Architecture qwen3(const JsonConfig& c) {
  Architecture a = llama(c);
  a.qk_norm = QkNorm::per_head;
  if (!c.flag({"use_sliding_window"}, false)) a.window = 0, a.window_share = 0;
  return a;
}
Architecture deepseek(const JsonConfig& c) {
  Architecture a = llama(c);
  const std::string type = c.text({"model_type"}, "");
  a.router_bias = c.text({"topk_method"}, "") == "noaux_tc" || type == "deepseek_v3" || type == "glm_moe_dsa";  // the score-correction bias
  return a;
}
Architecture glm4_moe(const JsonConfig& c) {
  Architecture a = generic(c);  // attention_bias means q, k and v only here
  if (c.flag({"use_qk_norm"}, false)) a.qk_norm = QkNorm::per_head;
  a.router_bias = true;
  return a;
}
Architecture gpt_oss(const JsonConfig& c) {
  Architecture a = generic(c);
  a.qkv_bias = a.out_bias = c.flag({"attention_bias"}, true);
  a.ffn_bias = a.router_bias = a.attention_sinks = true;
  a.unfused_activation = 1.0;  // its clamped, biased GLU
  return a;
}
Architecture full_width_qk_norm(const JsonConfig& c) {
  Architecture a = llama(c);
  a.qk_norm = QkNorm::full_width;
  return a;
}
Architecture phimoe(const JsonConfig& c) {
  Architecture a = llama(c);
  a.norm = NormKind::layer;
  a.head_bias = c.flag({"lm_head_bias"}, false);
  return a;
}
Architecture llama4(const JsonConfig& c) {
  Architecture a = llama(c);
  a.dense_ffn = c.integer({"intermediate_size_mlp"}, c.integer({"intermediate_size"}));
  a.shared_ffn = a.expert_ffn;  // every MoE layer has one shared expert of the routed width
  const std::int64_t chunk = c.integer({"attention_chunk_size"}, 0);
  if (chunk > 0) {
    const auto rope = c.integers({"no_rope_layers"});  // 1: rotary and chunked, 0: neither; by default every 4th is 0
    a.window = chunk;
    a.window_share = rope.empty() ? 0.75 : static_cast<double>(std::count(rope.begin(), rope.end(), 1)) / static_cast<double>(rope.size());
    if (a.window_share == 0) a.window = 0;
  }
  return a;
}
Architecture dbrx(const JsonConfig& c) {
  Architecture a = common(c);  // its LayerNorm has no bias: h weights, as an RMS norm
  const JsonConfig attention = c.object("attn_config"), ffn = c.object("ffn_config");
  a.kv_heads = attention.integer({"kv_n_heads"}, a.heads);
  a.experts = ffn.integer({"moe_num_experts"});
  a.top_k = ffn.integer({"moe_top_k"});
  a.expert_ffn = ffn.integer({"ffn_hidden_size"});
  a.dense_ffn = 0;
  return a;
}
Architecture grok(const JsonConfig& c) {
  Architecture a = generic(c);
  a.tied = c.flag({"tie_word_embeddings"}, true);
  a.norms_per_layer = 4;  // before and after attention and FFN
  return a;
}
Architecture gemma(const JsonConfig& c) {
  Architecture a = generic(c);
  a.tied = c.flag({"tie_word_embeddings"}, true);
  const std::string type = c.text({"model_type"}, "");
  a.norms_per_layer = type == "gemma" ? 2 : 4;
  if (type.starts_with("gemma3")) a.qk_norm = QkNorm::per_head;
  return a;
}
Architecture gpt2(const JsonConfig& c) {
  Architecture a = common(c);
  if (a.dense_ffn == 0) a.dense_ffn = 4 * a.hidden;  // n_inner null means four times the width
  a.tied = c.flag({"tie_word_embeddings"}, true);
  a.learned_positions = c.integer({"n_positions", "n_ctx"});
  a.norm = NormKind::layer;
  a.gated = false;
  a.qkv_bias = a.out_bias = a.ffn_bias = true;
  return a;
}
Architecture gpt_neox(const JsonConfig& c) {
  Architecture a = common(c);
  a.norm = NormKind::layer;
  a.gated = false;
  a.qkv_bias = a.out_bias = c.flag({"attention_bias"}, true);
  a.ffn_bias = true;
  return a;
}
Architecture minimax(const JsonConfig& c) {
  Architecture a = generic(c);
  const auto kinds = c.integers({"attn_type_list"});  // 0: lightning attention, 1: softmax
  const auto types = c.texts({"layer_types"});
  a.linear_attention_layers = std::count(kinds.begin(), kinds.end(), 0) + std::count(types.begin(), types.end(), "linear_attention");
  if (c.flag({"use_qk_norm"}, false)) a.qk_norm = c.text({"qk_norm_type"}, "") == "per_layer" ? QkNorm::full_width : QkNorm::per_head;
  a.router_bias = c.flag({"use_routing_bias"}, false);
  return a;
}
Architecture hunyuan(const JsonConfig& c) {
  Architecture a = llama(c);
  if (c.flag({"use_qk_norm"}, false)) a.qk_norm = QkNorm::per_head;
  if (c.flag({"use_cla"}, false)) a.shared_kv_every = c.integer({"cla_share_factor"});
  return a;
}
/// One letter per layer, from the pattern or from the list that newer files give instead.
std::string hybrid_pattern(const JsonConfig& c) {
  std::string pattern = c.text({"hybrid_override_pattern"}, "");
  if (!pattern.empty()) return pattern;
  for (const std::string& type : c.texts({"layers_block_type"})) {
    const char letter = type == "mamba" ? 'M' : type == "moe" ? 'E' : type == "attention" ? '*' : type == "mlp" ? '-' : '?';
    if (letter == '?') throw InputError(c.where("layers_block_type") + ": '" + type + "'", "mamba, moe, attention and mlp are known", "mend the file.");
    pattern += letter;
  }
  if (pattern.empty())
    throw InputError(c.where("hybrid_override_pattern") + ": missing key", "it says what each layer is", "add it (or layers_block_type).");
  return pattern;
}

Architecture nemotron_h(const JsonConfig& c) {
  const std::string pattern = hybrid_pattern(c);
  Architecture a = generic(c, static_cast<std::int64_t>(pattern.size()));
  a.pattern = pattern;
  a.norms_per_layer = 1;
  a.mamba_layers = std::count(a.pattern.begin(), a.pattern.end(), 'M');
  if (a.mamba_layers > 0) {
    a.mamba_heads = c.integer({"mamba_num_heads"});
    a.mamba_head_dim = c.integer({"mamba_head_dim"});
    a.mamba_state = c.integer({"ssm_state_size"});
    a.mamba_groups = c.integer({"n_groups"});
    a.mamba_conv = c.integer({"conv_kernel"});
    leave_out(a, "state-space layers are counted but their time is not modelled");
  }
  if (a.pattern.find('-') == std::string::npos) a.dense_ffn = 0;
  a.router_bias = a.is_moe();
  return a;
}

struct KnownFamily {
  const char* model_type;
  Family read;
};
const KnownFamily kFamilies[] = {
    {"llama", llama},
    {"mistral", llama},
    {"mixtral", llama},
    {"phi3", llama},
    {"qwen2", qwen2},
    {"qwen2_moe", qwen2},
    {"qwen3", qwen3},
    {"qwen3_moe", qwen3},
    {"qwen3_vl_text", qwen3},
    {"qwen3_vl_moe_text", qwen3},
    {"glm_moe_dsa", deepseek},
    {"deepseek", deepseek},
    {"deepseek_v2", deepseek},
    {"deepseek_v3", deepseek},
    {"deepseek_v32", deepseek},
    {"kimi_k2", deepseek},
    {"glm4_moe", glm4_moe},
    {"gpt_oss", gpt_oss},
    {"olmoe", full_width_qk_norm},
    {"olmo2", full_width_qk_norm},
    {"phimoe", phimoe},
    {"llama4", llama4},
    {"llama4_text", llama4},
    {"dbrx", dbrx},
    {"grok-1", grok},
    {"grok_1", grok},
    {"gemma", gemma},
    {"gemma2", gemma},
    {"gemma3", gemma},
    {"gemma3_text", gemma},
    {"gpt2", gpt2},
    {"gpt_neox", gpt_neox},
    {"minimax", minimax},
    {"minimax_text_01", minimax},
    {"MiniMaxText01", minimax},
    {"minimax_m2", minimax},
    {"hunyuan", hunyuan},
    {"hunyuan_v1_moe", hunyuan},
    {"nemotron_h", nemotron_h},
};

/// A family nobody taught us: field names, the plain defaults, and a word about both.
Architecture unknown_family(const JsonConfig& c, const std::string& type) {
  for (const char* key : {"attn_layer_period", "attn_layer_indices", "layers_block_type", "mamba_d_state", "mamba_d_ssm", "ssm_state_size", "state_size"})
    if (c.has({key}))
      throw InputError(c.where(key) + ": layers that are no attention", "where model_type '" + type + "' has state-space layers is not known here",
                       "write the architecture as TOML with pattern and the mamba_ keys (docs/architectures.md).");
  Architecture a = generic(c);
  const std::string act = c.text({"hidden_act", "hidden_activation", "activation_function"}, "silu");
  if (act.starts_with("gelu")) a.gated = false;
  if (c.flag({"use_qk_norm", "qk_norm"}, false)) a.qk_norm = QkNorm::per_head;
  leave_out(a, "model_type '" + type + "' is unknown: read by field names, " + (a.gated ? "gated" : "ungated") + " FFN, two norms a layer and " +
                   (a.tied ? "tied" : "untied") + " embeddings taken for granted");
  return a;
}

/// Python writes the numbers Infinity and NaN, which JSON has not; none of the geometry's keys holds one.
std::string without_infinities(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    bool replaced = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (quoted || text.substr(i, word.size()) != word) continue;
      out += "null";
      i += word.size();
      replaced = true;
      break;
    }
    if (!replaced) out += text[i++];
  }
  return out;
}

}  // namespace

Architecture architecture_from_huggingface(std::string_view text, const std::string& name) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(without_infinities(text));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(name + ": not valid JSON", error.what(), "give the config.json of a Hugging Face model.");
  }
  if (!root.is_object())
    throw InputError(name + ": not a JSON object", std::string("it is a JSON ") + root.type_name(), "give the config.json of a Hugging Face model.");
  JsonConfig config(root, name);
  const bool wrapped = config.has({"text_config"}) && !config.has({"num_hidden_layers"});
  std::string type = config.text({"model_type"}, "");
  if (wrapped) {
    config = config.object("text_config");
    type = config.text({"model_type"}, type);
  }
  const auto* known = std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const KnownFamily& family) { return type == family.model_type; });
  Architecture a = known != std::end(kFamilies) ? known->read(config) : unknown_family(config, type);
  if (wrapped) leave_out(a, "vision or audio encoder and projector");
  if (a.moe_every >= 1 && a.ffn_layer_count() > a.moe_layer_count() && a.dense_ffn == 0) config.integer({"intermediate_size", "ffn_hidden_size", "n_inner"});
  a.name = name;
  a.source = "config.json, model_type '" + type + "'";
  try {
    complete(a, false);
  } catch (const InputError& error) {
    throw InputError(name + ": the geometry does not fit together", error.what(), "mend the file.");
  }
  return a;
}

Architecture read_huggingface(const std::string& path) {
  std::error_code code;
  const std::string file = std::filesystem::is_directory(path, code) ? (std::filesystem::path(path) / "config.json").string() : path;
  return architecture_from_huggingface(read_text_file(file, "the config.json of a Hugging Face model"), file);
}

}  // namespace tessera
