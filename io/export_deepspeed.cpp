// DeepSpeed: its JSON, and the model as a Hugging Face config.json that the training script loads.
#include <fmt/format.h>

#include <algorithm>

#include "io/export_parts.hpp"

namespace tessera::exporting {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kFramework = "DeepSpeed";

[[noreturn]] void refuse(std::string_view field, const std::string& value, const std::string& why,
                         const std::string& remedy) {
  cannot_express(kFramework, field, value, why, remedy);
}

void refuse_plan(const ExportRequest& r) {
  const Plan& p = r.plan;
  if (p.pp > 1)
    refuse("pp", std::to_string(p.pp),
           "its stages are written into the training script (PipelineModule), not into its JSON",
           "use pp=1.");
  if (p.virtual_stages > 1)
    refuse("virtual_stages", std::to_string(p.virtual_stages), "it has no interleaved schedule",
           "use virtual_stages=1.");
  if (p.schedule != Schedule::one_f_one_b)
    refuse("schedule", std::string(to_string(p.schedule)), "it has 1F1B only", "use schedule=1f1b.");
  if (!r.architecture.is_moe() && (p.ep > 1 || p.etp > 1))
    refuse(p.ep > 1 ? "ep" : "etp", std::to_string(std::max(p.ep, p.etp)), "the model is dense",
           "use ep=1,etp=1.");
  if (p.etp != 1)
    refuse("etp", std::to_string(p.etp), "its expert_tensor_parallel_size accepts 1 only", "use etp=1.");
  if (p.ep > 1 && p.tp > 1)
    refuse("ep", std::to_string(p.ep), "its expert parallelism cannot be combined with tp > 1",
           "use tp=1 or ep=1.");
  if (p.ep > 1 && p.cp > 1 && p.zero == 3)
    refuse("cp", std::to_string(p.cp), "not with ep > 1 and ZeRO 3", "use cp=1 or zero=2.");
  if (p.tp > 1 && p.cp > 1)
    refuse("cp", std::to_string(p.cp), "its mesh is data x sequence parallel, without tp",
           "use tp=1 or cp=1.");
  if (p.cp > 1 && r.architecture.heads % p.cp != 0)
    refuse("cp", std::to_string(p.cp), "its sequence parallelism shares out the heads, which cp must divide",
           "use a divisor of the heads.");
  if (p.precision != Precision::bf16)
    refuse("precision", std::string(to_string(p.precision)), "it trains in bf16 and fp16",
           "use precision=bf16.");
  if (p.optimizer == Optimizer::scion)
    refuse("optimizer", "scion", "it has no Scion", "use optimizer=adam or muon.");
  if (p.optimizer == Optimizer::muon && p.zero == 0)
    refuse("optimizer", "muon", "its Muon needs ZeRO 1, 2 or 3", "use zero=1.");
  if (p.recompute == Recompute::selective || p.recompute == Recompute::super_selective)
    refuse("recompute", std::string(to_string(p.recompute)), "it recomputes whole layers",
           "use recompute=none or full.");
}

// The preset of a family whose MoE layers AutoEP knows; for the others the names of the modules.
Json expert_parallel(const Plan& p, const std::string& type) {
  Json j{{"enabled", true}, {"autoep_size", p.ep}, {"expert_tensor_parallel_size", p.etp}};
  if (type == "qwen2_moe" || type == "qwen3_moe")
    j["preset_model"] = "qwen3_moe";
  else if (type == "mixtral" || type == "deepseek_v2" || type == "deepseek_v3")
    j["preset_model"] = type;
  else if (type == "glm4_moe") {
    j.update(Json{{"moe_layer_pattern", "model\\.layers\\.\\d+\\.mlp"},
                  {"router_pattern", "gate"},
                  {"expert_pattern", "experts"},
                  {"expert_w1", "gate_up_proj"},
                  {"expert_w2", "down_proj"},
                  {"expert_w3", nullptr},
                  {"num_experts_attr", "n_routed_experts"},
                  {"top_k_attr", "num_experts_per_tok"},
                  {"score_func", "sigmoid"},
                  {"score_apply", "post"},
                  {"has_shared_experts", true},
                  {"shared_experts_pattern", "shared_experts"}});
  } else {
    refuse("ep", std::to_string(p.ep),
           fmt::format("its expert parallelism does not know the experts of {}", type), "use ep=1.");
  }
  return j;
}

}  // namespace

Export deepspeed(const ExportRequest& r) {
  const Plan& p = r.plan;
  refuse_plan(r);
  HuggingFaceModel model = huggingface_config(r.architecture, r.sequence, kFramework);
  Json j{{"train_batch_size", p.batch},
         {"train_micro_batch_size_per_gpu", p.micro_batch},
         {"gradient_accumulation_steps", p.micro_batches()},
         {"bf16", {{"enabled", true}}},
         {"zero_optimization", {{"stage", p.zero}, {"overlap_comm", r.cluster.stack.dp_overlap}}},
         {"optimizer",
          {{"type", p.optimizer == Optimizer::muon ? "Muon" : "AdamW"}, {"params", Json::object()}}}};
  if (p.tp > 1) j["tensor_parallel"] = Json{{"autotp_size", p.tp}};
  if (p.cp > 1) {
    j["sequence_parallel_size"] = p.cp;
    j["data_parallel_size"] = p.dp;
  }
  if (r.architecture.is_moe() && p.ep > 1) j["expert_parallel"] = expert_parallel(p, model.model_type);
  if (p.recompute == Recompute::full)
    j["activation_checkpointing"] = Json{{"partition_activations", false}, {"cpu_checkpointing", false}};
  Export out;
  out.format = "deepspeed";
  out.files.push_back({"deepspeed.json", j.dump(2) + "\n"});
  out.files.push_back({"config.json", model.config.dump(2) + "\n"});
  out.notes = heading(r);
  if (p.cp > 1)
    out.notes.push_back(
        "cp is exported as Ulysses sequence parallelism: all-to-all of heads, where the plan was costed with "
        "a ring.");
  if (p.recompute == Recompute::full)
    out.notes.push_back(
        "Full recomputation also needs model.gradient_checkpointing_enable() in the training script.");
  if (p.ep > 1)
    out.notes.push_back("Expert parallelism of Hugging Face models (AutoEP) needs Transformers 5.");
  out.notes.insert(out.notes.end(), model.notes.begin(), model.notes.end());
  return out;
}

}  // namespace tessera::exporting
