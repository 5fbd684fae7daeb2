// torchtitan 0.2 (names checked against 0.2.2; later versions are configured in Python): the job's TOML, and the geometry as a
// flavor of the model family that has it, registered by a small Python module that the job imports (experimental.custom_import).
#include <fmt/format.h>

#include <algorithm>

#include "io/export_parts.hpp"
#include "model/stage_layout.hpp"
#include "tessera/study.hpp"

namespace tessera::exporting {
namespace {

constexpr std::string_view kFramework = "torchtitan";
constexpr const char* kModule = "tessera_flavor";  ///< file and flavor name

[[noreturn]] void refuse(std::string_view field, const std::string& value, const std::string& why,
                         const std::string& remedy) {
  cannot_express(kFramework, field, value, why, remedy);
}

struct Family {
  const char* name;       ///< model.name
  const char* arguments;  ///< Python class of the geometry
  const char* table;      ///< name of the dictionary of flavors
  const char* package;    ///< where both are imported from
  bool pipelines;         ///< has a pipelining function
};
constexpr Family kLlama{"llama3", "TransformerModelArgs", "llama3_args", "torchtitan.models.llama3", true};
constexpr Family kQwen{"qwen3", "Qwen3ModelArgs", "qwen3_args", "torchtitan.models.qwen3", false};
constexpr Family kDeepSeek{"deepseek_v3", "DeepSeekV3ModelArgs", "deepseekv3_args",
                           "torchtitan.models.deepseek_v3", true};

// What no family of torchtitan has.
void refuse_geometry(const Architecture& a) {
  refuse_exotic_parts(kFramework, a);
  const std::string remedy = "export to megatron-lm, or choose another architecture.";
  if (!a.gated) refuse("gated", "false", "its FFNs are gated", remedy);
  if (a.norm != NormKind::rms) refuse("norm", "layer", "its norms are RMS norms", remedy);
  if (a.learned_positions > 0)
    refuse("learned_positions", std::to_string(a.learned_positions), "its positions are rotary", remedy);
  if (a.mtp_layers > 0)
    refuse("mtp_layers", std::to_string(a.mtp_layers), "it has no multi-token prediction", remedy);
  if (a.qk_norm == QkNorm::full_width)
    refuse("qk_norm", "full_width", "its query and key norms are per head", remedy);
  for (const auto& [field, set] : {std::pair{"qkv_bias", a.qkv_bias},
                                   {"out_bias", a.out_bias},
                                   {"ffn_bias", a.ffn_bias},
                                   {"attention_sinks", a.attention_sinks},
                                   {"shared_gate", a.shared_gate}})
    if (set) refuse(field, "true", "none of its families with free geometry has it", remedy);
  if (a.unfused_activation > 0)
    refuse("unfused_activation", "1", "none of its families with free geometry has it", remedy);
  if (a.window > 0 && a.window_share > 0)
    refuse("window", std::to_string(a.window), "none of its families with free geometry has it", remedy);
  if (a.is_moe() && a.moe_every != 1)
    refuse("moe_every", std::to_string(a.moe_every), "its MoE layers are not interleaved with dense ones",
           remedy);
  if (a.is_moe() && a.shared_ffn % a.expert_ffn != 0)
    refuse("shared_ffn", std::to_string(a.shared_ffn), "its shared experts have the width of a routed one",
           remedy);
}

const Family& family_of(const Architecture& a, const Plan& p) {
  const std::string remedy = "export to megatron-lm, or choose another architecture.";
  if (a.attention == AttentionKind::mla) {
    if (!a.is_moe() || a.tied)
      refuse("attention", "mla", "its latent attention is that of DeepSeek-V3: MoE, embedding not tied",
             remedy);
    return kDeepSeek;
  }
  if (a.is_moe() && a.dense_layers > 0)
    refuse("dense_layers", std::to_string(a.dense_layers),
           "it has leading dense layers with latent attention only", remedy);
  const bool llama = !a.is_moe() && !a.tied && a.qk_norm == QkNorm::none && a.heads * a.head_dim == a.hidden;
  const Family& family = llama ? kLlama : kQwen;
  if (p.pp > 1 && !family.pipelines)
    refuse("pp", std::to_string(p.pp),
           fmt::format("its {} family, which this geometry needs, has no pipeline", family.name),
           "use pp=1, or export to megatron-lm.");
  return family;
}

std::string moe_arguments(const Architecture& a) {
  const bool latent = a.attention == AttentionKind::mla;
  std::string text = fmt::format(
      "        moe_args=MoEArgs(\n            num_experts={},\n            num_shared_experts={},\n          "
      "  top_k={},\n            gate_bias={},\n",
      a.experts, a.shared_ffn / a.expert_ffn, a.top_k, !latent && a.router_bias ? "True" : "False");
  // DeepSeek's bias steers the router without being a trained weight: torchtitan keeps it where this is set.
  text += fmt::format("            score_func=\"{}\",\n            load_balance_coeff={},\n        ),\n",
                      latent ? "sigmoid" : "softmax", latent && a.router_bias ? "1e-3" : "None");
  return text;
}

// llama3 derives its FFN width: 2/3 of 4 x dim, times a factor, rounded up to a multiple. A multiple as wide
// as the FFN and a factor that stays below it give exactly that width.
std::string llama_width(const Architecture& a) {
  const std::int64_t derived = 8 * a.hidden / 3;
  return fmt::format("        multiple_of={},\n        ffn_dim_multiplier={},\n", a.dense_ffn,
                     derived <= a.dense_ffn ? "None"
                                            : fmt::format("{:.6f}", 0.5 * static_cast<double>(a.dense_ffn) /
                                                                        static_cast<double>(derived)));
}

std::string flavor(const ExportRequest& r, const Family& family) {
  const Architecture& a = r.architecture;
  std::string text;
  for (const std::string& line : heading(r)) text += "# " + line + "\n";
  text += fmt::format("from {} import {}, {}\n", family.package, family.table, family.arguments);
  if (a.is_moe()) text += "from torchtitan.models.moe import MoEArgs\n";
  text += fmt::format(
      "\n{}[\"{}\"] = {}(\n        dim={},\n        n_layers={},\n        n_heads={},\n        "
      "vocab_size={},\n        max_seq_len={},\n",
      family.table, kModule, family.arguments, a.hidden, a.layers, a.heads, a.vocabulary, r.sequence);
  if (&family == &kDeepSeek) {
    text += fmt::format(
        "        inter_dim={},\n        n_dense_layers={},\n        q_lora_rank={},\n        "
        "kv_lora_rank={},\n        qk_nope_head_dim={},\n        qk_rope_head_dim={},\n        "
        "v_head_dim={},\n",
        a.dense_ffn, a.dense_layers, a.q_lora, a.kv_lora, a.qk_nope, a.qk_rope, a.v_head);
  } else {
    text += fmt::format("        n_kv_heads={},\n", a.kv_heads);
    if (&family == &kLlama)
      text += llama_width(a);
    else
      text += fmt::format(
          "        head_dim={},\n        hidden_dim={},\n        qk_norm={},\n        "
          "enable_weight_tying={},\n        moe_enabled={},\n",
          a.head_dim, a.dense_ffn > 0 ? a.dense_ffn : a.expert_ffn,
          a.qk_norm == QkNorm::per_head ? "True" : "False", a.tied ? "True" : "False",
          a.is_moe() ? "True" : "False");
  }
  if (a.is_moe()) text += fmt::format("        moe_inter_dim={},\n", a.expert_ffn) + moe_arguments(a);
  return text + ")\n";
}

std::string data_parallel(const Plan& p) {
  if (p.zero == 1)
    refuse("zero", "1", "it shards gradients and weights or nothing (FSDP2, DDP)", "use zero=0, 2 or 3.");
  if (p.zero == 0 && p.ep > 1)
    refuse("ep", std::to_string(p.ep),
           "it cuts the expert mesh out of the sharded devices, and zero=0 shards nothing",
           "use zero=2 or 3.");
  if (p.zero == 0 && p.dp > 1 && (p.tp > 1 || p.cp > 1 || p.pp > 1))
    refuse("zero", "0", "its DDP cannot be combined with tp, cp or pp", "use zero=2 or 3.");
  return fmt::format(
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\nfsdp_reshard_after_forward = "
      "\"{}\"\n",
      p.zero == 0 ? p.dp : 1, p.zero == 0 ? 1 : p.dp, p.zero == 3 ? "always" : "never");
}

std::string stage_modules(const ExportRequest& r, std::int64_t parts) {
  std::string text = "module_fqns_per_model_part = [\n";
  std::int64_t layer = 0;
  for (const Part& part : spread_layers(r.architecture, r.cluster.stack, parts)) {
    std::vector<std::string> names;
    if (part.first) names.push_back("\"tok_embeddings\"");
    for (std::int64_t i = 0; i < part.dense + part.moe; ++i)
      names.push_back(fmt::format("\"layers.{}\"", layer++));
    if (part.last) names.insert(names.end(), {"\"norm\"", "\"output\""});
    text += fmt::format("  [{}],\n", fmt::join(names, ", "));
  }
  return text + "]\n";
}

std::string pipeline(const ExportRequest& r) {
  const Plan& p = r.plan;
  std::string text = fmt::format("pipeline_parallel_degree = {}\n", p.pp);
  if (p.schedule == Schedule::zb_h1 || p.schedule == Schedule::dualpipe)
    refuse("schedule", std::string(to_string(p.schedule)),
           "its zero-bubble and DualPipe schedules are the V-shaped ones, which hold two stages a device",
           "use schedule=1f1b or interleaved.");
  if (p.virtual_stages > 1 && p.schedule != Schedule::interleaved)
    refuse("virtual_stages", std::to_string(p.virtual_stages),
           "only the interleaved schedule has virtual stages", "use schedule=interleaved.");
  if (p.pp == 1) return text;
  const std::int64_t parts = std::int64_t{1} * p.pp * p.virtual_stages;
  text += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                      p.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B", p.micro_batch);
  if (r.architecture.layers % parts == 0)
    return text + fmt::format(
                      "pipeline_parallel_layers_per_stage = {}\npipeline_parallel_first_stage_less_layers = "
                      "0\npipeline_parallel_last_stage_less_layers = 0\n",
                      r.architecture.layers / parts);
  if (!can_spread(r.architecture, r.cluster.stack, parts))
    refuse(
        "pp", std::to_string(p.pp),
        fmt::format("{} layers cannot be spread over {} stages by this stack", r.architecture.layers, parts),
        "use a pp x virtual_stages that divides the layers.");
  return text + stage_modules(r, parts);
}

std::string parallelism(const ExportRequest& r) {
  const Plan& p = r.plan;
  if (!r.architecture.is_moe() && (p.ep > 1 || p.etp > 1))
    refuse(p.ep > 1 ? "ep" : "etp", std::to_string(std::max(p.ep, p.etp)), "the model is dense",
           "use ep=1,etp=1.");
  if (p.etp != 1 && p.etp != p.tp)
    refuse("etp", std::to_string(p.etp), "it has etp = 1 or etp = tp only", "use one of these.");
  std::string text = "[parallelism]\n" + data_parallel(p);
  text += fmt::format("tensor_parallel_degree = {}\ncontext_parallel_degree = {}\n", p.tp, p.cp);
  text += pipeline(r);
  if (r.architecture.is_moe())
    text += fmt::format("expert_parallel_degree = {}\nexpert_tensor_parallel_degree = {}\n", p.ep, p.etp);
  return text;
}

std::string checkpointing(Recompute mode, std::vector<std::string>& notes) {
  switch (mode) {
    case Recompute::none:
      return "[activation_checkpoint]\nmode = \"none\"\n";
    case Recompute::full:
      return "[activation_checkpoint]\nmode = \"full\"\n";
    case Recompute::selective:
      notes.push_back(
          "torchtitan's selective recomputation is op-wise (every second matrix product and the point-wise "
          "work).");
      return "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n";
    case Recompute::super_selective:
      break;
  }
  refuse("recompute", "super-selective", "it cannot choose modules to recompute",
         "use recompute=none, selective or full.");
}

// The converters of [model], and the tables that configure them.
std::pair<std::string, std::string> quantisation(const ExportRequest& r, const Family& family) {
  const bool moe = r.architecture.is_moe();
  switch (r.plan.precision) {
    case Precision::bf16:
      return {};
    case Precision::fp8: {
      // DeepSeek-V3's tensor parallelism is refused with per-tensor scales.
      const bool rowwise = &family == &kDeepSeek && r.plan.tp > 1;
      return {fmt::format("converters = [\"quantize.linear.float8\"{}]\n",
                          moe ? ", \"quantize.grouped_mm.float8\"" : ""),
              fmt::format("\n[quantize.linear.float8]\nrecipe_name = \"{}\"\nfilter_fqns = [\"output\", "
                          "\"router.gate\"]\n{}",
                          rowwise ? "rowwise" : "tensorwise",
                          moe ? "\n[quantize.grouped_mm.float8]\nfqns = [\"experts\"]\n" : "")};
    }
    case Precision::mxfp8:
      return {
          fmt::format("converters = [\"quantize.linear.mx\"{}]\n", moe ? ", \"quantize.grouped_mm.mx\"" : ""),
          fmt::format(
              "\n[quantize.linear.mx]\nrecipe_name = \"mxfp8_cublas\"\nfilter_fqns = [\"output\", "
              "\"router.gate\"]\n{}",
              moe ? "\n[quantize.grouped_mm.mx]\nrecipe_name = \"mxfp8\"\nfqns = [\"experts\"]\n" : "")};
    case Precision::nvfp4:
      break;
  }
  refuse("precision", "nvfp4", "it trains in bf16, float8 and mxfp8", "use precision=bf16, fp8 or mxfp8.");
}

}  // namespace

Export torchtitan(const ExportRequest& r) {
  const Plan& p = r.plan;
  refuse_geometry(r.architecture);
  const Family& family = family_of(r.architecture, p);
  if (p.optimizer != Optimizer::adam)
    refuse("optimizer", std::string(to_string(p.optimizer)), "it has Adam and AdamW only",
           "use optimizer=adam.");
  Export out;
  out.format = "torchtitan";
  out.notes = heading(r);
  const auto [converters, tables] = quantisation(r, family);
  std::string text;
  for (const std::string& line : heading(r)) text += "# " + line + "\n";
  text += fmt::format("\n[model]\nname = \"{}\"\nflavor = \"{}\"\n{}", family.name, kModule, converters);
  text += fmt::format("\n[experimental]\ncustom_import = \"{}\"\n\n[optimizer]\nname = \"AdamW\"\n", kModule);
  // Without a pipeline micro-batches are accumulated; with one, the ranks' whole share goes through it at
  // once.
  text += fmt::format(
      "\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nmixed_precision_param = "
      "\"bfloat16\"\n\n",
      p.pp > 1 ? p.batch / p.dp : p.micro_batch, p.batch, r.sequence);
  text += parallelism(r) + "\n" + checkpointing(p.recompute, out.notes) + tables;
  out.files.push_back({"torchtitan.toml", text});
  out.files.push_back({fmt::format("{}.py", kModule), flavor(r, family)});
  out.notes.push_back(
      fmt::format("Keep {}.py on the Python path (PYTHONPATH), and start torchtitan 0.2 (later ones read no "
                  "TOML) with --job.config_file torchtitan.toml.",
                  kModule));
  return out;
}

}  // namespace tessera::exporting
