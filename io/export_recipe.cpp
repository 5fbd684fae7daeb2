// Megatron-Bridge and NeMo 2: the settings of Megatron-Core as a Python recipe.
#include <fmt/format.h>

#include <algorithm>

#include "io/export_megatron.hpp"
#include "io/export_parts.hpp"
#include "tessera/study.hpp"

namespace tessera::exporting {
namespace {

// "    name=value,\n" for every setting of the groups that has an attribute.
std::string keywords(const Settings& settings, std::initializer_list<Group> groups, int indent) {
  std::string text;
  for (const Setting& s : settings.list)
    for (const Group group : groups)
      if (s.group == group && !s.field.empty())
        text += fmt::format("{:{}}{}={},\n", "", indent, s.field, s.code);
  return text;
}

std::string comment(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + line + "\n";
  return text;
}

const Setting* find(const Settings& settings, std::string_view field) {
  for (const Setting& s : settings.list)
    if (s.field == field) return &s;
  return nullptr;
}

std::string code_of(const Settings& settings, std::string_view field) {
  const Setting* s = find(settings, field);
  return s ? s->code : "None";
}

bool uses(const Settings& settings, std::string_view code) {
  for (const Setting& s : settings.list)
    if (s.code == code) return true;
  return false;
}

// Settings that only one of the two has.
void drop(Settings& settings, std::string_view field) {
  std::erase_if(settings.list, [&](const Setting& s) { return s.field == field; });
}

Export recipe(std::string format, std::string name, std::string text, const ExportRequest& request,
              const Settings& settings) {
  Export out;
  out.format = std::move(format);
  out.files.push_back({std::move(name), std::move(text)});
  out.notes = heading(request);
  out.notes.insert(out.notes.end(), settings.notes.begin(), settings.notes.end());
  return out;
}

}  // namespace

Export megatron_bridge(const ExportRequest& request) {
  const Settings settings = megatron_settings(request, "Megatron-Bridge");
  const bool latent = request.architecture.attention == AttentionKind::mla;
  const char* provider = latent ? "MLAModelProvider" : "GPTModelProvider";
  std::string text = comment(heading(request));
  text += "import torch\n\n";
  if (uses(settings, "quick_gelu")) text += "from megatron.core.fusions.fused_bias_geglu import quick_gelu\n";
  text += fmt::format("from megatron.bridge.models.{} import {}\n", latent ? "mla_provider" : "gpt_provider",
                      provider);
  text +=
      "from megatron.bridge.recipes.common import _pretrain_common\n"
      "from megatron.bridge.training.config import ConfigContainer\n"
      "from megatron.bridge.training.mixed_precision import bf16_mixed\n\n\n";
  text += "def pretrain_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n";
  text += fmt::format("    cfg.model = {}(\n{}        seq_length={},\n    )\n", provider,
                      keywords(settings, {Group::model, Group::parallel}, 8), request.sequence);
  text += fmt::format(
      "    cfg.tokenizer.tokenizer_type = \"NullTokenizer\"  # put yours here\n"
      "    cfg.tokenizer.vocab_size = {}\n",
      request.architecture.vocabulary);
  for (const Setting& s : settings.list) {
    if (s.field.empty()) continue;
    if (s.group == Group::train) text += fmt::format("    cfg.train.{} = {}\n", s.field, s.code);
    if (s.group == Group::data) text += fmt::format("    cfg.dataset.{} = {}\n", s.field, s.code);
    if (s.group == Group::ddp) text += fmt::format("    cfg.ddp.{} = {}\n", s.field, s.code);
    if (s.group == Group::optimizer) text += fmt::format("    cfg.optimizer.{} = {}\n", s.field, s.code);
  }
  if (find(settings, "use_megatron_fsdp"))
    text += "    cfg.dist.use_megatron_fsdp = True\n    cfg.checkpoint.ckpt_format = \"fsdp_dtensor\"\n";
  if (!find(settings, "overlap_grad_reduce")) text += "    cfg.ddp.overlap_grad_reduce = False\n";
  if (!find(settings, "overlap_param_gather")) text += "    cfg.ddp.overlap_param_gather = False\n";
  text += fmt::format("    cfg.optimizer.use_distributed_optimizer = {}\n",
                      code_of(settings, "use_distributed_optimizer"));
  text += fmt::format("    precision = bf16_mixed()\n    precision.grad_reduce_in_fp32 = {}\n",
                      code_of(settings, "grad_reduce_in_fp32"));
  for (const Setting& s : settings.list)
    if (s.group == Group::precision && !s.field.empty())
      text += fmt::format("    precision.{} = {}\n", s.field, s.code);
  text += "    cfg.mixed_precision = precision\n    return cfg\n";
  return recipe("megatron-bridge", "tessera_recipe.py", std::move(text), request, settings);
}

Export nemo(const ExportRequest& request) {
  Settings settings = megatron_settings(request, "NeMo");
  drop(settings, "should_pad_vocab");  // NeMo always pads
  const bool latent = request.architecture.attention == AttentionKind::mla;
  if (request.plan.optimizer == Optimizer::muon)
    cannot_express("NeMo", "optimizer", "muon", "its Megatron optimizer has no Muon",
                   "use optimizer=adam or megatron-bridge.");
  const char* config = latent ? "DeepSeekConfig" : "GPTConfig";
  const char* model = latent ? "DeepSeekModel" : "GPTModel";
  std::string text = comment(heading(request));
  text +=
      "import nemo_run as run\nimport torch\nfrom megatron.core.distributed import "
      "DistributedDataParallelConfig\n"
      "from megatron.core.optimizer import OptimizerConfig\n";
  if (uses(settings, "quick_gelu")) text += "from megatron.core.activations import quick_gelu\n";
  text +=
      "from nemo import lightning as nl\nfrom nemo.collections import llm\n"
      "from nemo.collections.llm.gpt.data.mock import MockDataModule\n";
  text += fmt::format("from nemo.collections.llm.gpt.model.{} import {}, {}\n\n\n",
                      latent ? "deepseek" : "base", config, model);
  text += "def pretrain_recipe() -> run.Partial:\n";
  text += fmt::format(
      "    model = run.Config(\n        {},\n        config=run.Config(\n            {},\n{}            "
      "seq_length={},\n        ),\n    )\n",
      model, config, keywords(settings, {Group::model}, 12), request.sequence);
  const bool fsdp = find(settings, "use_megatron_fsdp") != nullptr;
  text += fmt::format("    strategy = run.Config(\n        nl.MegatronStrategy,\n{}",
                      keywords(settings, {Group::parallel}, 8));
  if (fsdp) text += "        fsdp=\"megatron\",\n        save_ckpt_format=\"fsdp_dtensor\",\n";
  text += fmt::format(
      "        ddp=run.Config(\n            DistributedDataParallelConfig,\n{}        ),\n    )\n",
      keywords(settings, {Group::ddp}, 12));
  const std::int64_t per_node = std::min(request.cluster.fabric.node_devices, request.cluster.devices);
  text += fmt::format(
      "    precision = run.Config(\n        nl.MegatronMixedPrecision,\n        precision=\"bf16-mixed\",\n  "
      "      grad_reduce_in_fp32={},\n{}    )\n",
      code_of(settings, "grad_reduce_in_fp32"), keywords(settings, {Group::precision}, 8));
  text += fmt::format(
      "    trainer = run.Config(\n        nl.Trainer,\n        accelerator=\"gpu\",\n        devices={},\n   "
      "     num_nodes={},\n"
      "        accumulate_grad_batches=1,\n        use_distributed_sampler=False,\n        "
      "plugins=precision,\n        strategy=strategy,\n    )\n",
      per_node, nodes_of(request.cluster));
  text += fmt::format(
      "    optimizer = run.Config(\n        nl.MegatronOptimizerModule,\n        config=run.Config(\n        "
      "    OptimizerConfig,\n"
      "            bf16=True,\n            use_distributed_optimizer={},\n{}        ),\n    )\n",
      code_of(settings, "use_distributed_optimizer"), keywords(settings, {Group::optimizer}, 12));
  text += fmt::format(
      "    data = run.Config(MockDataModule, {}{})  # put yours here\n",
      fmt::format("seq_length={}, ", request.sequence),
      fmt::format("micro_batch_size={}, global_batch_size={}", request.plan.micro_batch, request.plan.batch));
  text += "    return run.Partial(llm.pretrain, model=model, trainer=trainer, data=data, optim=optimizer)\n";
  return recipe("nemo", "tessera_recipe.py", std::move(text), request, settings);
}

}  // namespace tessera::exporting
