#include "io/export_megatron.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/export_parts.hpp"
#include "model/stage_layout.hpp"

namespace tessera::exporting {
namespace {

// Megatron-LM pads the vocabulary to a multiple of this times tp; the memory model assumes the same.
constexpr int kVocabularyMultiple = 128;
// The activation of GPT-OSS, the only published model whose GLU is clamped and biased (its config.json:
// swiglu_limit 7.0; its reference implementation adds 1 to the linear half and uses x * sigmoid(1.702 x)).
constexpr const char* kGluOffset = "1.0";
constexpr const char* kGluClamp = "7.0";

const char* python(bool value) { return value ? "True" : "False"; }
std::string python_text(std::string_view text) { return fmt::format("\"{}\"", text); }

class Builder {
 public:
  Builder(const ExportRequest& r, std::string_view framework)
      : r_(r), a_(r.architecture), p_(r.plan), s_(r.cluster.stack), framework_(framework) {}

  Settings build() {
    refuse_exotic_parts(framework_, a_);
    geometry();
    attention();
    biases();
    if (a_.is_moe()) experts();
    mesh();
    stages();
    batch();
    recompute();
    data_parallel();
    precision();
    optimizer();
    return std::move(out_);
  }

 private:
  void add(Group group, std::string flag, std::string argument, std::string field, std::string code) {
    out_.list.push_back({group, std::move(flag), std::move(argument), std::move(field), std::move(code)});
  }
  void number(Group group, const std::string& flag, const std::string& field, std::int64_t value) {
    add(group, flag, std::to_string(value), field, std::to_string(value));
  }
  void word(Group group, const std::string& flag, const std::string& field, const std::string& value) {
    add(group, flag, value, field, python_text(value));
  }
  void on(Group group, const std::string& flag, const std::string& field) {
    add(group, flag, "", field, "True");
  }
  // An attribute whose default differs between the classes and the command line, so that it is always
  // written.
  void attribute(Group group, const std::string& field, const std::string& code) {
    add(group, "", "", field, code);
  }
  [[noreturn]] void refuse(std::string_view field, const std::string& value, const std::string& why,
                           const std::string& remedy) {
    cannot_express(framework_, field, value, why, remedy);
  }

  void geometry() {
    number(Group::model, "--num-layers", "num_layers", a_.layers);
    number(Group::model, "--hidden-size", "hidden_size", a_.hidden);
    number(Group::model, "--ffn-hidden-size", "ffn_hidden_size",
           a_.dense_ffn > 0 ? a_.dense_ffn : a_.expert_ffn);
    number(Group::model, "--vocab-size", "vocab_size", a_.vocabulary);
    number(Group::model, "--make-vocab-size-divisible-by", "make_vocab_size_divisible_by",
           kVocabularyMultiple);
    attribute(Group::model, "should_pad_vocab", "True");
    if (a_.tied)
      attribute(Group::model, "share_embeddings_and_output_weights", "True");
    else
      add(Group::model, "--untie-embeddings-and-output-weights", "", "share_embeddings_and_output_weights",
          "False");
    const bool learned = a_.learned_positions > 0;
    word(Group::model, "--position-embedding-type", "position_embedding_type",
         learned ? "learned_absolute" : "rope");
    const std::int64_t positions = learned ? a_.learned_positions : r_.sequence;
    if (learned && positions < r_.sequence)
      refuse("learned_positions", std::to_string(positions),
             fmt::format("the sequence has {} tokens", r_.sequence),
             "shorten --seq or take an architecture with more positions.");
    if (learned && positions != r_.sequence && framework_ != "Megatron-LM")
      refuse("learned_positions", std::to_string(positions),
             "its position embedding is as long as the sequence",
             fmt::format("give --seq {}, or export to megatron-lm.", positions));
    add(Group::model, "--max-position-embeddings", std::to_string(positions), "", "");
    word(Group::model, "--normalization", "normalization",
         a_.norm == NormKind::rms ? "RMSNorm" : "LayerNorm");
    activation();
    add(Group::model, "--hidden-dropout", "0.0", "hidden_dropout",
        "0.0");  // the memory model has no dropout masks
    add(Group::model, "--attention-dropout", "0.0", "attention_dropout", "0.0");
    if (a_.mtp_layers > 0) number(Group::model, "--mtp-num-layers", "mtp_num_layers", a_.mtp_layers);
  }

  void activation() {
    if (a_.unfused_activation > 0) {
      if (!a_.gated)
        refuse("unfused_activation", "1", "the clamped activation is a gated one", "set gated = true.");
      add(Group::model, "--quick-geglu", "", "activation_func", "quick_gelu");
      add(Group::model, "--glu-linear-offset", kGluOffset, "glu_linear_offset", kGluOffset);
      add(Group::model, "--activation-func-clamp-value", kGluClamp, "activation_func_clamp_value", kGluClamp);
      attribute(Group::model, "gated_linear_unit", "True");
    } else if (a_.gated) {
      add(Group::model, "--swiglu", "", "activation_func", "torch.nn.functional.silu");
      attribute(Group::model, "gated_linear_unit", "True");
    } else {
      attribute(Group::model, "activation_func", "torch.nn.functional.gelu");
      attribute(Group::model, "gated_linear_unit", "False");
    }
  }

  void attention() {
    number(Group::model, "--num-attention-heads", "num_attention_heads", a_.heads);
    if (a_.attention == AttentionKind::mla) {
      latent_attention();
    } else {
      if (a_.kv_heads != a_.heads) {
        add(Group::model, "--group-query-attention", "", "", "");
        number(Group::model, "--num-query-groups", "num_query_groups", a_.kv_heads);
      }
      number(Group::model, "--kv-channels", "kv_channels", a_.head_dim);
      if (a_.qk_norm == QkNorm::full_width)
        refuse("qk_norm", "full_width", "its query and key norms are per head",
               "choose another architecture.");
      if (a_.qk_norm == QkNorm::per_head) on(Group::model, "--qk-layernorm", "qk_layernorm");
    }
    if (a_.attention_sinks) word(Group::model, "--softmax-type", "softmax_type", "learnable");
    window();
  }

  void latent_attention() {
    add(Group::model, "--multi-latent-attention", "", "multi_latent_attention", "True");
    if (a_.q_lora > 0)
      number(Group::model, "--q-lora-rank", "q_lora_rank", a_.q_lora);
    else
      attribute(Group::model, "q_lora_rank", "None");
    number(Group::model, "--kv-lora-rank", "kv_lora_rank", a_.kv_lora);
    number(Group::model, "--qk-head-dim", "qk_head_dim", a_.qk_nope);
    number(Group::model, "--qk-pos-emb-head-dim", "qk_pos_emb_head_dim", a_.qk_rope);
    number(Group::model, "--v-head-dim", "v_head_dim", a_.v_head);
    on(Group::model, "--qk-layernorm", "qk_layernorm");  // here: the norms of the two latents, part of MLA
    word(Group::model, "--rope-type", "rope_type", "rope");
  }

  void window() {
    if (a_.window <= 0 || a_.window_share <= 0) return;
    // (left, right): the token itself is not counted.
    add(Group::model, "--window-size", fmt::format("{},0", a_.window - 1), "window_size",
        fmt::format("({}, 0)", a_.window - 1));
    const std::vector<bool> layers = window_layers(a_);
    if (std::all_of(layers.begin(), layers.end(), [](bool w) { return w; })) return;
    if (const std::int64_t period = window_period(a_); period > 0) {
      number(Group::model, "--window-attn-skip-freq", "window_attn_skip_freq", period);
    } else {
      const std::string pattern = python_pattern(layers);
      add(Group::model, "--window-attn-skip-freq", fmt::format("({})", pattern), "window_attn_skip_freq",
          pattern);
    }
    out_.notes.push_back(
        fmt::format("The architecture knows that {:.0f} % of its layers use the window, not which: they are "
                    "spread evenly.",
                    100 * a_.window_share));
  }

  void biases() {
    const bool any = a_.qkv_bias || a_.out_bias || a_.ffn_bias;
    const bool all = a_.qkv_bias && a_.out_bias && a_.ffn_bias;
    if (any && !all && (a_.out_bias || a_.ffn_bias))
      refuse(a_.out_bias ? "out_bias" : "ffn_bias", "true",
             "biases are on every linear layer, on q, k and v only, or nowhere",
             "set all three biases, or qkv_bias only.");
    if (all)
      attribute(Group::model, "add_bias_linear", "True");
    else
      add(Group::model, "--disable-bias-linear", "", "add_bias_linear", "False");
    if (a_.qkv_bias && !all) on(Group::model, "--add-qkv-bias", "add_qkv_bias");
    if (all && a_.is_moe() && p_.etp > 1)
      refuse("ffn_bias", "true", "biased experts need etp = 1", "use etp=1.");
    if (!a_.is_moe()) return;
    if (all && !a_.router_bias)
      refuse("router_bias", "false", "with biases everywhere its router has one", "set router_bias.");
    if (a_.router_bias && !all) {
      on(Group::model, "--moe-router-enable-expert-bias", "moe_router_enable_expert_bias");
      word(Group::model, "--moe-router-score-function", "moe_router_score_function", "sigmoid");
    }
  }

  void experts() {
    number(Group::model, "--num-experts", "num_moe_experts", a_.experts);
    number(Group::model, "--moe-router-topk", "moe_router_topk", a_.top_k);
    number(Group::model, "--moe-ffn-hidden-size", "moe_ffn_hidden_size", a_.expert_ffn);
    if (a_.shared_ffn > 0)
      number(Group::model, "--moe-shared-expert-intermediate-size", "moe_shared_expert_intermediate_size",
             a_.shared_ffn);
    if (a_.shared_gate) {
      if (a_.shared_ffn <= 0) refuse("shared_gate", "true", "there is no shared expert", "set shared_ffn.");
      on(Group::model, "--moe-shared-expert-gate", "moe_shared_expert_gate");
    }
    const std::vector<bool> layers = moe_layers(a_);
    const std::string pattern = python_pattern(layers);
    if (!std::all_of(layers.begin(), layers.end(), [](bool m) { return m; }))
      add(Group::model, "--moe-layer-freq", fmt::format("({})", pattern), "moe_layer_freq", pattern);
    else
      add(Group::model, "--moe-layer-freq", "1", "moe_layer_freq", "1");
    on(Group::model, "--moe-grouped-gemm", "moe_grouped_gemm");
    const bool flex = s_.dispatcher == Dispatcher::deduplicated;
    word(Group::model, "--moe-token-dispatcher-type", "moe_token_dispatcher_type",
         flex ? "flex" : "alltoall");
    expert_overlap();
  }

  // What the stack overlaps, where Megatron-Core's own checks allow it beside this plan.
  void expert_overlap() {
    const bool shared_recomputed = p_.recompute == Recompute::super_selective;
    const bool exchange = s_.expert_overlap && p_.ep > 1 && p_.recompute != Recompute::full &&
                          (p_.pp == 1 || p_.virtual_stages > 1);
    if (exchange)
      on(Group::model, "--overlap-moe-expert-parallel-comm", "overlap_moe_expert_parallel_comm");
    else if (s_.expert_overlap && p_.ep > 1)
      out_.notes.push_back(
          "Overlap of the expert exchange is left off: Megatron-Core needs interleaved stages when pp > 1, "
          "and no full recomputation.");
    if (!s_.shared_overlap || a_.shared_ffn <= 0) return;
    if (!exchange && !shared_recomputed)
      on(Group::model, "--moe-shared-expert-overlap", "moe_shared_expert_overlap");
    else
      out_.notes.push_back(
          "Overlap of the shared expert is left off: Megatron-Core refuses it beside this plan.");
  }

  void mesh() {
    number(Group::parallel, "--tensor-model-parallel-size", "tensor_model_parallel_size", p_.tp);
    number(Group::parallel, "--context-parallel-size", "context_parallel_size", p_.cp);
    number(Group::parallel, "--pipeline-model-parallel-size", "pipeline_model_parallel_size", p_.pp);
    if (p_.pp > 1) attribute(Group::parallel, "pipeline_dtype", "torch.bfloat16");
    if (a_.is_moe()) {
      number(Group::parallel, "--expert-model-parallel-size", "expert_model_parallel_size", p_.ep);
      number(Group::parallel, "--expert-tensor-parallel-size", "expert_tensor_parallel_size", p_.etp);
    } else if (p_.ep > 1 || p_.etp > 1) {
      refuse(p_.ep > 1 ? "ep" : "etp", std::to_string(std::max(p_.ep, p_.etp)), "the model is dense",
             "use ep=1,etp=1.");
    }
    if (p_.tp > 1 && s_.sequence_parallel) on(Group::parallel, "--sequence-parallel", "sequence_parallel");
    if (p_.tp > 1 && !s_.sequence_parallel && a_.is_moe())
      refuse("tp", std::to_string(p_.tp),
             "its MoE layers need sequence parallelism with tp > 1, which this stack does not use",
             "choose a stack with sequence_parallel = true or tp=1.");
  }

  void stages() {
    if (p_.schedule == Schedule::zb_h1 || p_.schedule == Schedule::dualpipe)
      refuse("schedule", std::string(to_string(p_.schedule)), "it has 1F1B and interleaved 1F1B only",
             "use schedule=1f1b or schedule=interleaved.");
    const std::int64_t parts = std::int64_t{1} * p_.pp * p_.virtual_stages;
    if (p_.virtual_stages > 1 && p_.schedule != Schedule::interleaved)
      refuse("virtual_stages", std::to_string(p_.virtual_stages),
             "only the interleaved schedule has virtual stages", "use schedule=interleaved.");
    const bool even = a_.layers % parts == 0;
    if (p_.virtual_stages > 1)  // the command line derives it from a layout
      add(Group::parallel, even ? "--num-virtual-stages-per-pipeline-rank" : "",
          std::to_string(p_.virtual_stages), "virtual_pipeline_model_parallel_size",
          std::to_string(p_.virtual_stages));
    if (!even) layout(parts);
  }

  void layout(std::int64_t parts) {
    if (!can_spread(a_, s_, parts))
      refuse("pp", std::to_string(p_.pp),
             fmt::format("{} layers cannot be spread over {} stages by this stack", a_.layers, parts),
             "use a pp x virtual_stages that divides the layers.");
    std::string text;
    for (const Part& part : spread_layers(a_, s_, parts)) {
      if (!part.first) text += '|';
      if (part.first) text += 'E';
      const std::int64_t layers = part.dense + part.moe;
      if (layers > 0) text += fmt::format("t*{}", layers);
      if (part.last && a_.mtp_layers > 0) text += fmt::format("m*{}", a_.mtp_layers);
      if (part.last) text += 'L';
    }
    word(Group::parallel, "--pipeline-model-parallel-layout", "pipeline_model_parallel_layout", text);
  }

  void batch() {
    number(Group::train, "--micro-batch-size", "micro_batch_size", p_.micro_batch);
    number(Group::train, "--global-batch-size", "global_batch_size", p_.batch);
    number(Group::data, "--seq-length", "seq_length", r_.sequence);
  }

  void recompute() {
    if (p_.recompute == Recompute::none) return;
    if (p_.recompute == Recompute::full) {
      word(Group::model, "--recompute-granularity", "recompute_granularity", "full");
      word(Group::model, "--recompute-method", "recompute_method", "uniform");
      number(Group::model, "--recompute-num-layers", "recompute_num_layers", 1);
      return;
    }
    std::vector<std::string> modules;
    const std::vector<bool> layers = moe_layers(a_);
    const bool has_dense = std::any_of(layers.begin(), layers.end(), [](bool m) { return !m; });
    if (p_.recompute == Recompute::selective) modules.push_back("core_attn");
    if (a_.is_moe()) modules.push_back("moe_act");
    if (p_.recompute == Recompute::super_selective) {
      modules.push_back("layernorm");
      if (a_.attention == AttentionKind::mla) modules.push_back("mla_up_proj");
      if (a_.shared_ffn > 0) modules.push_back("shared_experts");
      if (has_dense) modules.push_back("mlp");
    }
    word(Group::model, "--recompute-granularity", "recompute_granularity", "selective");
    std::string code;
    for (const auto& module : modules) code += (code.empty() ? "" : ", ") + python_text(module);
    add(Group::model, "--recompute-modules", fmt::format("{}", fmt::join(modules, " ")), "recompute_modules",
        "[" + code + "]");
  }

  void data_parallel() {
    if (p_.zero >= 2) {
      if (p_.pp > 1)
        refuse("zero", std::to_string(p_.zero), "ZeRO >= 2 is Megatron-FSDP, which is not run with pp > 1",
               "use zero=1 or pp=1.");
      if (p_.optimizer != Optimizer::adam)
        refuse("zero", std::to_string(p_.zero), "Megatron-FSDP has no optimizer but Adam",
               "use zero=1 or optimizer=adam.");
      on(Group::ddp, "--use-megatron-fsdp", "use_megatron_fsdp");
      word(Group::ddp, "--data-parallel-sharding-strategy", "data_parallel_sharding_strategy",
           p_.zero == 2 ? "optim_grads" : "optim_grads_params");
      add(Group::ddp, "--ckpt-format", "fsdp_dtensor", "", "");
    }
    if (p_.zero >= 1)
      on(Group::ddp, "--use-distributed-optimizer", "use_distributed_optimizer");
    else
      attribute(Group::ddp, "use_distributed_optimizer", "False");
    if (s_.dp_overlap) on(Group::ddp, "--overlap-grad-reduce", "overlap_grad_reduce");
    if (s_.dp_overlap && p_.zero >= 1) on(Group::ddp, "--overlap-param-gather", "overlap_param_gather");
    const bool wide = s_.gradient_bytes > 2;  // main gradients in fp32
    add(Group::ddp, wide ? "--accumulate-allreduce-grads-in-fp32" : "--grad-reduce-in-bf16", "",
        "grad_reduce_in_fp32", python(wide));
  }

  void precision() {
    add(Group::precision, "--bf16", "", "",
        "");  // all formats keep bf16 outside the quantised matrix products
    switch (p_.precision) {
      case Precision::bf16:
        break;
      case Precision::fp8:
        word(Group::precision, "--fp8-format", "fp8", "hybrid");
        word(Group::precision, "--fp8-recipe", "fp8_recipe", "tensorwise");
        break;
      case Precision::mxfp8:
        word(Group::precision, "--fp8-format", "fp8", "e4m3");
        word(Group::precision, "--fp8-recipe", "fp8_recipe", "mxfp8");
        break;
      case Precision::nvfp4:
        word(Group::precision, "--fp4-format", "fp4", "e2m1");
        word(Group::precision, "--fp4-recipe", "fp4_recipe", "nvfp4");
        break;
    }
  }

  void optimizer() {
    if (p_.optimizer == Optimizer::scion)
      refuse("optimizer", "scion", "it has no Scion", "use optimizer=adam or optimizer=muon.");
    word(Group::optimizer, "--optimizer", "optimizer", std::string(to_string(p_.optimizer)));
  }

  const ExportRequest& r_;
  const Architecture& a_;
  const Plan& p_;
  const Stack& s_;
  std::string framework_;
  Settings out_;
};

}  // namespace

Settings megatron_settings(const ExportRequest& request, std::string_view framework) {
  return Builder(request, framework).build();
}

}  // namespace tessera::exporting
