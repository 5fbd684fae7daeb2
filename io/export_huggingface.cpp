// The geometry as a config.json of the Hugging Face family that has it: how DeepSpeed gets its model.
#include <fmt/format.h>

#include "io/export_parts.hpp"

namespace tessera::exporting {
namespace {

using Json = nlohmann::ordered_json;

class Writer {
 public:
  Writer(const Architecture& a, std::int64_t sequence, std::string_view framework)
      : a_(a), sequence_(sequence), framework_(framework) {}

  HuggingFaceModel write() {
    refuse_exotic_parts(framework_, a_);
    if (a_.mtp_layers > 0)
      refuse("mtp_layers", std::to_string(a_.mtp_layers),
             "Hugging Face models have no multi-token prediction");
    if (a_.learned_positions > 0 || a_.norm == NormKind::layer || !a_.gated)
      gpt2();
    else if (!a_.is_moe())
      dense();
    else if (a_.attention == AttentionKind::mla)
      latent();
    else if (a_.attention_sinks)
      gpt_oss();
    else
      moe();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view field, const std::string& value, const std::string& why) {
    cannot_express(
        framework_, field, value, why + ", and its models are Hugging Face models",
        fmt::format("change it on the spot (-a {},{}=...) or export to megatron-lm.", a_.name, field));
  }
  void refuse_if(bool set, std::string_view field, std::string_view family) {
    if (set) refuse(field, "true", fmt::format("{} has none", family));
  }

  void begin(const char* type, const char* model) {
    out_.model_type = type;
    out_.config = Json{{"architectures", {model}},    {"model_type", type},
                       {"torch_dtype", "bfloat16"},   {"num_hidden_layers", a_.layers},
                       {"hidden_size", a_.hidden},    {"num_attention_heads", a_.heads},
                       {"vocab_size", a_.vocabulary}, {"tie_word_embeddings", a_.tied},
                       {"use_cache", false}};
  }
  void grouped_attention() {
    out_.config["num_key_value_heads"] = a_.kv_heads;
    out_.config["head_dim"] = a_.head_dim;
    out_.config["hidden_act"] = "silu";
    out_.config["max_position_embeddings"] = sequence_;
  }
  void no_window(std::string_view family) {
    if (a_.window > 0 && a_.window_share > 0)
      refuse("window", std::to_string(a_.window), fmt::format("{} has no sliding window", family));
  }
  void whole_window(std::string_view family) {
    if (a_.window <= 0 || a_.window_share <= 0) return;
    if (a_.window_share < 1)
      refuse("window_share", fmt::format("{}", a_.window_share),
             fmt::format("{} uses its window on every layer", family));
    out_.config["sliding_window"] = a_.window;
  }
  void no_unfused(std::string_view family) {
    if (a_.unfused_activation > 0)
      refuse("unfused_activation", "1", fmt::format("the activation of {} is not clamped", family));
  }

  void gpt2() {
    if (a_.is_moe())
      refuse(a_.gated ? (a_.norm == NormKind::layer ? "norm" : "learned_positions") : "gated",
             a_.gated ? "layer" : "false", "no MoE family is like that");
    if (!(a_.learned_positions > 0))
      refuse(a_.gated ? "norm" : "gated", a_.gated ? "layer" : "false",
             "the family like that, GPT-2, has learned positions");
    if (a_.gated) refuse("gated", "true", "GPT-2's FFN is not gated");
    if (a_.norm != NormKind::layer) refuse("norm", "rms", "GPT-2 has layer norms");
    if (a_.kv_heads != a_.heads)
      refuse("kv_heads", std::to_string(a_.kv_heads), "GPT-2 has as many as heads");
    if (a_.heads * a_.head_dim != a_.hidden)
      refuse("head_dim", std::to_string(a_.head_dim), "GPT-2's is hidden / heads");
    if (!a_.qkv_bias || !a_.out_bias || !a_.ffn_bias)
      refuse(!a_.qkv_bias   ? "qkv_bias"
             : !a_.out_bias ? "out_bias"
                            : "ffn_bias",
             "false", "GPT-2 has biases everywhere");
    if (a_.qk_norm != QkNorm::none) refuse("qk_norm", "per_head", "GPT-2 has none");
    if (a_.learned_positions < sequence_)
      refuse("learned_positions", std::to_string(a_.learned_positions),
             fmt::format("the sequence has {} tokens", sequence_));
    no_window("GPT-2");
    refuse_if(a_.attention_sinks, "attention_sinks", "GPT-2");
    out_.model_type = "gpt2";
    out_.config = Json{{"architectures", {"GPT2LMHeadModel"}},
                       {"model_type", "gpt2"},
                       {"torch_dtype", "bfloat16"},
                       {"n_layer", a_.layers},
                       {"n_embd", a_.hidden},
                       {"n_head", a_.heads},
                       {"n_inner", a_.dense_ffn},
                       {"n_positions", a_.learned_positions},
                       {"vocab_size", a_.vocabulary},
                       {"tie_word_embeddings", a_.tied},
                       {"activation_function", "gelu_new"},
                       {"attn_pdrop", 0.0},
                       {"embd_pdrop", 0.0},
                       {"resid_pdrop", 0.0},
                       {"use_cache", false}};
  }

  void dense() {
    if (a_.attention == AttentionKind::mla)
      refuse("attention", "mla", "no dense family has latent attention");
    refuse_if(a_.attention_sinks, "attention_sinks", "a dense family");
    no_unfused("every dense family");
    const bool windowed = a_.window > 0 && a_.window_share > 0;
    if (a_.qk_norm == QkNorm::per_head)
      begin("qwen3", "Qwen3ForCausalLM");
    else if (a_.qk_norm == QkNorm::full_width)
      begin("olmo2", "Olmo2ForCausalLM");
    else if (a_.qkv_bias && !a_.out_bias)
      begin("qwen2", "Qwen2ForCausalLM");
    else if (windowed && !a_.qkv_bias && !a_.ffn_bias)
      begin("mistral", "MistralForCausalLM");
    else
      begin("llama", "LlamaForCausalLM");
    const std::string type = out_.model_type;
    if (a_.ffn_bias && type != "llama") refuse("ffn_bias", "true", type + " has none");
    if (a_.out_bias != a_.qkv_bias && type != "qwen2")
      refuse("out_bias", a_.out_bias ? "true" : "false", type + " has it where it has qkv_bias");
    if (type == "mistral")
      whole_window(type);
    else
      no_window(type);
    if (type == "qwen2" && a_.heads * a_.head_dim != a_.hidden)
      refuse("head_dim", std::to_string(a_.head_dim), "qwen2's is hidden / heads");
    grouped_attention();
    out_.config["intermediate_size"] = a_.dense_ffn;
    if (type == "llama" || type == "qwen3" || type == "olmo2") out_.config["attention_bias"] = a_.qkv_bias;
    if (type == "llama") out_.config["mlp_bias"] = a_.ffn_bias;
  }

  void shared_of_expert_width(std::string_view family) {
    if (a_.shared_ffn % a_.expert_ffn != 0 || a_.shared_ffn == 0)
      refuse("shared_ffn", std::to_string(a_.shared_ffn),
             fmt::format("{} has shared experts of the width of a routed one", family));
    if (a_.moe_every != 1)
      refuse("moe_every", std::to_string(a_.moe_every),
             fmt::format("every layer of {} after the first is MoE", family));
    out_.config["n_routed_experts"] = a_.experts;
    out_.config["num_experts_per_tok"] = a_.top_k;
    out_.config["moe_intermediate_size"] = a_.expert_ffn;
    out_.config["n_shared_experts"] = a_.shared_ffn / a_.expert_ffn;
    out_.config["first_k_dense_replace"] = a_.dense_layers;
    out_.config["intermediate_size"] = a_.dense_ffn > 0 ? a_.dense_ffn : a_.expert_ffn;
    out_.config["n_group"] = 1;
    out_.config["topk_group"] = 1;
  }

  void latent() {
    const bool biased = a_.router_bias;
    begin(biased ? "deepseek_v3" : "deepseek_v2", biased ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM");
    const std::string family = "DeepSeek";
    refuse_if(a_.out_bias != a_.qkv_bias, "out_bias", family);
    refuse_if(a_.ffn_bias, "ffn_bias", family);
    refuse_if(a_.shared_gate, "shared_gate", family);
    refuse_if(a_.attention_sinks, "attention_sinks", family);
    no_unfused(family);
    no_window(family);
    out_.config["attention_bias"] = a_.qkv_bias;
    out_.config["num_key_value_heads"] = a_.heads;
    if (a_.q_lora > 0)
      out_.config["q_lora_rank"] = a_.q_lora;
    else
      out_.config["q_lora_rank"] = nullptr;
    out_.config["kv_lora_rank"] = a_.kv_lora;
    out_.config["qk_nope_head_dim"] = a_.qk_nope;
    out_.config["qk_rope_head_dim"] = a_.qk_rope;
    out_.config["v_head_dim"] = a_.v_head;
    out_.config["hidden_act"] = "silu";
    out_.config["max_position_embeddings"] = sequence_;
    shared_of_expert_width(family);
    out_.config["topk_method"] = biased ? "noaux_tc" : "greedy";
    out_.config["scoring_func"] = biased ? "sigmoid" : "softmax";
  }

  void gpt_oss() {
    begin("gpt_oss", "GptOssForCausalLM");
    const std::string family = "GPT-OSS";
    if (!a_.qkv_bias || !a_.out_bias || !a_.ffn_bias || !a_.router_bias || a_.unfused_activation <= 0)
      refuse("attention_sinks", "true",
             "GPT-OSS, the family with sinks, has biases everywhere and a clamped activation");
    if (a_.shared_ffn > 0)
      refuse("shared_ffn", std::to_string(a_.shared_ffn), "GPT-OSS has no shared expert");
    if (a_.dense_layers > 0)
      refuse("dense_layers", std::to_string(a_.dense_layers), "every layer of GPT-OSS is MoE");
    if (a_.moe_every != 1) refuse("moe_every", std::to_string(a_.moe_every), "every layer of GPT-OSS is MoE");
    if (a_.qk_norm != QkNorm::none) refuse("qk_norm", "per_head", "GPT-OSS has none");
    grouped_attention();
    out_.config["attention_bias"] = true;
    out_.config["intermediate_size"] = a_.expert_ffn;
    out_.config["num_local_experts"] = a_.experts;
    out_.config["num_experts_per_tok"] = a_.top_k;
    Json types = Json::array();
    for (const bool sliding : window_layers(a_))
      types.push_back(sliding ? "sliding_attention" : "full_attention");
    if (a_.window > 0 && a_.window_share > 0) out_.config["sliding_window"] = a_.window;
    out_.config["layer_types"] = types;
  }

  void moe() {
    no_unfused("every family without sinks");
    if (a_.ffn_bias) refuse("ffn_bias", "true", "no MoE family without sinks has it");
    if (a_.shared_gate) return qwen2_moe();
    if (a_.shared_ffn > 0) return glm4_moe();
    const bool per_head = a_.qk_norm == QkNorm::per_head;
    if (per_head)
      begin("qwen3_moe", "Qwen3MoeForCausalLM");
    else if (a_.qk_norm == QkNorm::full_width)
      begin("olmoe", "OlmoeForCausalLM");
    else
      begin("mixtral", "MixtralForCausalLM");
    const std::string type = out_.model_type;
    if (a_.router_bias) refuse("router_bias", "true", type + " has none");
    if (a_.out_bias != a_.qkv_bias || (type == "mixtral" && a_.qkv_bias))
      refuse(a_.qkv_bias ? "qkv_bias" : "out_bias", "true", type + " has no such bias");
    if (!per_head && a_.dense_layers > 0)
      refuse("dense_layers", std::to_string(a_.dense_layers), "every layer of " + type + " is MoE");
    if (!per_head && a_.moe_every != 1)
      refuse("moe_every", std::to_string(a_.moe_every), "every layer of " + type + " is MoE");
    if (per_head && a_.dense_layers > 0 && a_.moe_every != 1)
      refuse("dense_layers", std::to_string(a_.dense_layers), "not together with moe_every");
    if (type == "mixtral")
      whole_window(type);
    else
      no_window(type);
    grouped_attention();
    out_.config[type == "mixtral" ? "num_local_experts" : "num_experts"] = a_.experts;
    out_.config["num_experts_per_tok"] = a_.top_k;
    out_.config["intermediate_size"] = per_head && a_.dense_ffn > 0 ? a_.dense_ffn : a_.expert_ffn;
    if (type != "mixtral") out_.config["attention_bias"] = a_.qkv_bias;
    if (per_head) sparse_step();
  }

  // Dense layers of the Qwen families: the first ones by list, interleaved ones by step.
  void sparse_step() {
    out_.config["moe_intermediate_size"] = a_.expert_ffn;
    out_.config["decoder_sparse_step"] = a_.moe_every;
    Json dense = Json::array();
    for (std::int64_t i = 0; i < a_.dense_layers; ++i) dense.push_back(i);
    out_.config["mlp_only_layers"] = dense;
  }

  void qwen2_moe() {
    begin("qwen2_moe", "Qwen2MoeForCausalLM");
    if (!a_.qkv_bias)
      refuse("shared_gate", "true",
             "qwen2_moe, the family with a gate on the shared expert, has biases on q, k and v");
    if (a_.out_bias) refuse("out_bias", "true", "qwen2_moe has none");
    if (a_.router_bias) refuse("router_bias", "true", "qwen2_moe has none");
    if (a_.qk_norm != QkNorm::none) refuse("qk_norm", "per_head", "qwen2_moe has none");
    if (a_.dense_layers > 0 && a_.moe_every != 1)
      refuse("dense_layers", std::to_string(a_.dense_layers), "not together with moe_every");
    if (a_.heads * a_.head_dim != a_.hidden)
      refuse("head_dim", std::to_string(a_.head_dim), "qwen2_moe's is hidden / heads");
    no_window("qwen2_moe");
    grouped_attention();
    out_.config["num_experts"] = a_.experts;
    out_.config["num_experts_per_tok"] = a_.top_k;
    out_.config["intermediate_size"] = a_.dense_ffn > 0 ? a_.dense_ffn : a_.expert_ffn;
    out_.config["shared_expert_intermediate_size"] = a_.shared_ffn;
    sparse_step();
  }

  void glm4_moe() {
    begin("glm4_moe", "Glm4MoeForCausalLM");
    if (a_.out_bias)
      refuse("out_bias", "true", "glm4_moe, the family with shared experts and grouped queries, has none");
    if (a_.qk_norm == QkNorm::full_width) refuse("qk_norm", "full_width", "glm4_moe's is per head");
    no_window("glm4_moe");
    grouped_attention();
    shared_of_expert_width("glm4_moe");
    out_.config["attention_bias"] = a_.qkv_bias;
    out_.config["use_qk_norm"] = a_.qk_norm == QkNorm::per_head;
    if (!a_.router_bias)
      out_.notes.push_back(
          "glm4_moe keeps a score-correction number per expert and MoE layer (not trained by gradients), "
          "which the architecture has not.");
  }

  const Architecture& a_;
  std::int64_t sequence_;
  std::string framework_;
  HuggingFaceModel out_;
};

}  // namespace

HuggingFaceModel huggingface_config(const Architecture& architecture, std::int64_t sequence,
                                    std::string_view framework) {
  return Writer(architecture, sequence, framework).write();
}

}  // namespace tessera::exporting
