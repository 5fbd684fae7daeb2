// Exports: every field of architecture and plan reaches the framework's arguments or is refused by name;
// names are documented ones; what is written can be read by its language.
#include "io/export.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "io/architecture_fields.hpp"
#include "io/architecture_reader.hpp"
#include "io/huggingface.hpp"
#include "io/megatron_arguments.hpp"
#include "io/preset_reader.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

Cluster cluster_of(std::int64_t devices) {
  Cluster c;
  c.name = "test";
  c.device.name = "B200";
  c.fabric.name = "test";
  c.fabric.node_devices = 8;
  c.stack = Presets().stack("base");
  c.stack.name = "test-stack";
  c.stack.uneven_stages = true;
  c.devices = devices;
  return c;
}

// The paper's geometry on 256 devices.
ExportRequest ladder_request() {
  ExportRequest r;
  r.architecture = read_architecture("ladder:q=12,experts=96,top_k=2,split=4");
  r.cluster = cluster_of(256);
  r.plan.tp = 2, r.plan.pp = 8, r.plan.dp = 16, r.plan.ep = 16, r.plan.etp = 1, r.plan.micro_batch = 2;
  r.plan.batch = 1024;
  r.sequence = 2048;
  return r;
}

ExportRequest preset_request(const std::string& spec, std::int64_t devices) {
  ExportRequest r;
  r.architecture = read_architecture(spec);
  r.cluster = cluster_of(devices);
  r.plan.dp = static_cast<int>(devices);
  r.plan.batch = 4 * devices;
  r.plan.zero = 3;
  r.sequence = 1024;
  return r;
}

std::string all_text(const Export& e) {
  std::string text;
  for (const auto& file : e.files) {
    std::istringstream lines(file.text);  // the heading names the plan: comments are no arguments
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("#", 0) != 0) text += line + "\n";
  }
  return text;
}

std::map<std::string, std::string> arguments(const ExportRequest& r) {
  std::map<std::string, std::string> all;
  std::istringstream lines(export_plan(r, "megatron-lm").files.at(0).text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.find(' ');
    CHECK(all.emplace(line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1))
              .second);  // none twice
  }
  return all;
}

// Names of Megatron-LM's arguments, read off megatron/training/arguments.py and the dataclasses it is made
// from (commit d98e8a64, August 2026). The exporter may use no other.
const std::set<std::string> kMegatronArguments{"--num-layers",
                                               "--hidden-size",
                                               "--ffn-hidden-size",
                                               "--vocab-size",
                                               "--make-vocab-size-divisible-by",
                                               "--untie-embeddings-and-output-weights",
                                               "--position-embedding-type",
                                               "--max-position-embeddings",
                                               "--normalization",
                                               "--hidden-dropout",
                                               "--attention-dropout",
                                               "--mtp-num-layers",
                                               "--quick-geglu",
                                               "--glu-linear-offset",
                                               "--activation-func-clamp-value",
                                               "--swiglu",
                                               "--num-attention-heads",
                                               "--group-query-attention",
                                               "--num-query-groups",
                                               "--kv-channels",
                                               "--qk-layernorm",
                                               "--softmax-type",
                                               "--multi-latent-attention",
                                               "--q-lora-rank",
                                               "--kv-lora-rank",
                                               "--qk-head-dim",
                                               "--qk-pos-emb-head-dim",
                                               "--v-head-dim",
                                               "--rope-type",
                                               "--window-size",
                                               "--window-attn-skip-freq",
                                               "--disable-bias-linear",
                                               "--add-qkv-bias",
                                               "--moe-router-enable-expert-bias",
                                               "--moe-router-score-function",
                                               "--num-experts",
                                               "--moe-router-topk",
                                               "--moe-ffn-hidden-size",
                                               "--moe-shared-expert-intermediate-size",
                                               "--moe-shared-expert-gate",
                                               "--moe-layer-freq",
                                               "--moe-grouped-gemm",
                                               "--moe-token-dispatcher-type",
                                               "--overlap-moe-expert-parallel-comm",
                                               "--moe-shared-expert-overlap",
                                               "--tensor-model-parallel-size",
                                               "--context-parallel-size",
                                               "--pipeline-model-parallel-size",
                                               "--expert-model-parallel-size",
                                               "--expert-tensor-parallel-size",
                                               "--sequence-parallel",
                                               "--num-virtual-stages-per-pipeline-rank",
                                               "--pipeline-model-parallel-layout",
                                               "--micro-batch-size",
                                               "--global-batch-size",
                                               "--seq-length",
                                               "--recompute-granularity",
                                               "--recompute-method",
                                               "--recompute-num-layers",
                                               "--recompute-modules",
                                               "--use-megatron-fsdp",
                                               "--data-parallel-sharding-strategy",
                                               "--ckpt-format",
                                               "--use-distributed-optimizer",
                                               "--overlap-grad-reduce",
                                               "--overlap-param-gather",
                                               "--accumulate-allreduce-grads-in-fp32",
                                               "--grad-reduce-in-bf16",
                                               "--bf16",
                                               "--fp8-format",
                                               "--fp8-recipe",
                                               "--fp4-format",
                                               "--fp4-recipe",
                                               "--optimizer"};

using Change = std::pair<const char*, std::function<void(ExportRequest&)>>;

// Each field of an architecture, changed so that the geometry stays sound.
const std::vector<Change>& architecture_changes() {
  static const std::vector<Change> changes{
      {"layers", [](auto& r) { r.architecture.layers = 56; }},
      {"hidden", [](auto& r) { r.architecture.hidden = 6272; }},
      {"heads", [](auto& r) { r.architecture.heads = 64; }},
      {"kv_heads", [](auto& r) { r.architecture.kv_heads = 16; }},
      {"head_dim", [](auto& r) { r.architecture.head_dim = 64; }},
      {"attention",
       [](auto& r) {
         auto& a = r.architecture;
         a.attention = AttentionKind::mla, a.kv_heads = a.heads, a.head_dim = 0, a.q_lora = 1536,
         a.kv_lora = 512, a.qk_nope = 128, a.qk_rope = 64, a.v_head = 128;
       }},
      {"dense_ffn", [](auto& r) { r.architecture.dense_ffn = 12288; }},
      {"gated", [](auto& r) { r.architecture.gated = false; }},
      {"experts", [](auto& r) { r.architecture.experts *= 2; }},
      {"top_k", [](auto& r) { r.architecture.top_k = 3; }},
      {"expert_ffn", [](auto& r) { r.architecture.expert_ffn = 1920; }},
      {"shared_ffn", [](auto& r) { r.architecture.shared_ffn = 2 * r.architecture.expert_ffn; }},
      {"dense_layers", [](auto& r) { r.architecture.dense_layers = 3; }},
      {"moe_every", [](auto& r) { r.architecture.moe_every = 2; }},
      {"vocabulary", [](auto& r) { r.architecture.vocabulary = 128000; }},
      {"tied", [](auto& r) { r.architecture.tied = true; }},
      {"learned_positions", [](auto& r) { r.architecture.learned_positions = 2048; }},
      {"mtp_layers", [](auto& r) { r.architecture.mtp_layers = 1; }},
      {"window", [](auto& r) { r.architecture.window = 512, r.architecture.window_share = 0.5; }},
      {"linear_attention_layers", [](auto& r) { r.architecture.linear_attention_layers = 4; }},
      {"norm", [](auto& r) { r.architecture.norm = NormKind::layer; }},
      {"norms_per_layer", [](auto& r) { r.architecture.norms_per_layer = 4; }},
      {"qk_norm",
       [](auto& r) {
         r.architecture.qk_norm = r.architecture.qk_norm == QkNorm::none ? QkNorm::per_head : QkNorm::none;
       }},
      {"qk_norm", [](auto& r) { r.architecture.qk_norm = QkNorm::full_width; }},
      {"qkv_bias", [](auto& r) { r.architecture.qkv_bias = true; }},
      {"out_bias", [](auto& r) { r.architecture.out_bias = true; }},
      {"ffn_bias", [](auto& r) { r.architecture.ffn_bias = true; }},
      {"router_bias", [](auto& r) { r.architecture.router_bias = true; }},
      {"head_bias", [](auto& r) { r.architecture.head_bias = true; }},
      {"shared_gate", [](auto& r) { r.architecture.shared_gate = true; }},
      {"attention_sinks", [](auto& r) { r.architecture.attention_sinks = true; }},
      {"shared_kv_every", [](auto& r) { r.architecture.shared_kv_every = 2; }},
      {"extra_parameters", [](auto& r) { r.architecture.extra_parameters = 1000; }},
      {"unfused_activation", [](auto& r) { r.architecture.unfused_activation = 1; }},
  };
  return changes;
}

const std::vector<Change>& plan_changes() {
  static const std::vector<Change> changes{
      {"tp", [](auto& r) { r.plan.tp = 4, r.plan.dp = 8; }},
      {"cp", [](auto& r) { r.plan.cp = 2, r.plan.dp = 8; }},
      {"pp", [](auto& r) { r.plan.pp = 4, r.plan.dp = 32; }},
      {"ep", [](auto& r) { r.plan.ep = 8; }},
      {"etp", [](auto& r) { r.plan.etp = 2; }},
      {"virtual_stages", [](auto& r) { r.plan.virtual_stages = 3, r.plan.schedule = Schedule::interleaved; }},
      {"micro_batch", [](auto& r) { r.plan.micro_batch = 4; }},
      {"batch", [](auto& r) { r.plan.batch = 2048; }},
      {"zero", [](auto& r) { r.plan.zero = 0; }},
      {"zero", [](auto& r) { r.plan.zero = 2; }},
      {"zero", [](auto& r) { r.plan.zero = 3; }},
      {"recompute", [](auto& r) { r.plan.recompute = Recompute::selective; }},
      {"recompute", [](auto& r) { r.plan.recompute = Recompute::super_selective; }},
      {"recompute", [](auto& r) { r.plan.recompute = Recompute::full; }},
      {"schedule", [](auto& r) { r.plan.schedule = Schedule::zb_h1; }},
      {"schedule", [](auto& r) { r.plan.schedule = Schedule::dualpipe; }},
      {"precision", [](auto& r) { r.plan.precision = Precision::fp8; }},
      {"precision", [](auto& r) { r.plan.precision = Precision::mxfp8; }},
      {"precision", [](auto& r) { r.plan.precision = Precision::nvfp4; }},
      {"optimizer", [](auto& r) { r.plan.optimizer = Optimizer::muon; }},
      {"optimizer", [](auto& r) { r.plan.optimizer = Optimizer::scion; }},
      {"sequence", [](auto& r) { r.sequence = 4096; }},
  };
  return changes;
}

// The change shows in the files, or the error names a field and the framework.
void check_change(const ExportRequest& base, const Change& change, const std::string& format) {
  ExportRequest changed = base;
  change.second(changed);
  INFO(format << ": " << change.first);
  const std::string before =
      all_text(export_plan(base, format));  // a base must be accepted: a throw is a failure
  try {
    const Export exported = export_plan(changed, format);
    if (format == "deepspeed" && std::string(change.first) == "router_bias")
      CHECK(exported.notes.size() <
            export_plan(base, format)
                .notes.size());  // the family has it in any case: noted where it is not wanted
    else
      CHECK(all_text(exported) != before);
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Contains("cannot express " + std::string(change.first)) ||
                                 Contains("cannot express window_share") ||
                                 Contains("export: " + std::string(change.first)));
  }
}

// A base that the format accepts, so that a refusal can only come from the change.
ExportRequest base_of(const std::string& format) {
  if (format.rfind("megatron", 0) == 0 || format == "nemo") return ladder_request();
  ExportRequest r = ladder_request();
  if (format == "torchtitan")
    r.architecture = read_architecture("qwen3_30b_a3b"), r.architecture.head_dim = 96;
  r.plan.tp = 1, r.plan.pp = 1, r.plan.dp = 256, r.plan.zero = 3;
  return r;
}

}  // namespace

TEST_CASE("the ladder's optimum as Megatron-LM arguments", "[export]") {
  const auto a = arguments(ladder_request());
  const std::map<std::string, std::string> expected{{"--num-layers", "48"},
                                                    {"--hidden-size", "6144"},
                                                    {"--ffn-hidden-size", "15360"},
                                                    {"--num-attention-heads", "48"},
                                                    {"--group-query-attention", ""},
                                                    {"--num-query-groups", "8"},
                                                    {"--kv-channels", "128"},
                                                    {"--vocab-size", "257536"},
                                                    {"--untie-embeddings-and-output-weights", ""},
                                                    {"--position-embedding-type", "rope"},
                                                    {"--normalization", "RMSNorm"},
                                                    {"--swiglu", ""},
                                                    {"--disable-bias-linear", ""},
                                                    {"--num-experts", "96"},
                                                    {"--moe-router-topk", "2"},
                                                    {"--moe-ffn-hidden-size", "3840"},
                                                    {"--moe-shared-expert-intermediate-size", "3840"},
                                                    {"--moe-layer-freq", "'([0]*1+[1]*47)'"},
                                                    {"--tensor-model-parallel-size", "2"},
                                                    {"--context-parallel-size", "1"},
                                                    {"--pipeline-model-parallel-size", "8"},
                                                    {"--expert-model-parallel-size", "16"},
                                                    {"--expert-tensor-parallel-size", "1"},
                                                    {"--sequence-parallel", ""},
                                                    {"--micro-batch-size", "2"},
                                                    {"--global-batch-size", "1024"},
                                                    {"--seq-length", "2048"},
                                                    {"--use-distributed-optimizer", ""},
                                                    {"--bf16", ""},
                                                    {"--optimizer", "adam"}};
  for (const auto& [flag, value] : expected) {
    INFO(flag);
    REQUIRE(a.count(flag) == 1);
    CHECK(a.at(flag) == value);
  }
  for (const char* absent : {"--recompute-granularity", "--num-virtual-stages-per-pipeline-rank",
                             "--pipeline-model-parallel-layout", "--add-qkv-bias", "--use-megatron-fsdp",
                             "--fp8-format", "--multi-latent-attention", "--window-size"})
    CHECK(a.count(absent) == 0);
}

TEST_CASE("Megatron-LM arguments of single choices", "[export]") {
  ExportRequest r = ladder_request();
  r.plan.recompute = Recompute::super_selective;
  CHECK(arguments(r).at("--recompute-modules") == "moe_act layernorm shared_experts mlp");
  r.plan.recompute = Recompute::selective;
  CHECK(arguments(r).at("--recompute-modules") == "core_attn moe_act");
  r.plan.recompute = Recompute::full;
  CHECK(arguments(r).at("--recompute-granularity") == "full");
  CHECK(arguments(r).at("--recompute-num-layers") == "1");

  r = ladder_request();
  r.architecture.layers = 46;  // 46 layers on 4: 12 12 11 11
  r.plan.pp = 4, r.plan.dp = 32;
  CHECK(arguments(r).at("--pipeline-model-parallel-layout") == "'Et*12|t*12|t*11|t*11L'");
  r.cluster.stack.uneven_stages = false;
  CHECK_THROWS_WITH(export_plan(r, "megatron-lm"), Contains("pp = 4"));

  r = ladder_request();
  r.plan.virtual_stages = 3, r.plan.schedule = Schedule::interleaved;
  CHECK(arguments(r).at("--num-virtual-stages-per-pipeline-rank") == "3");

  const auto deepseek = arguments(preset_request("deepseek_v3", 64));
  CHECK(deepseek.at("--q-lora-rank") == "1536");
  CHECK(deepseek.at("--kv-lora-rank") == "512");
  CHECK(deepseek.at("--qk-head-dim") == "128");
  CHECK(deepseek.at("--qk-pos-emb-head-dim") == "64");
  CHECK(deepseek.at("--v-head-dim") == "128");
  CHECK(deepseek.at("--mtp-num-layers") == "1");
  CHECK(deepseek.at("--moe-layer-freq") == "'([0]*3+[1]*58)'");
  CHECK(deepseek.at("--data-parallel-sharding-strategy") == "optim_grads_params");
  CHECK(deepseek.count("--num-query-groups") == 0);

  const auto gpt_oss = arguments(preset_request("gpt_oss_20b", 8));
  CHECK(gpt_oss.at("--window-size") == "127,0");
  CHECK(gpt_oss.at("--window-attn-skip-freq") == "2");
  CHECK(gpt_oss.at("--softmax-type") == "learnable");
  CHECK(gpt_oss.count("--disable-bias-linear") == 0);
}

TEST_CASE("Megatron-LM gets documented arguments only", "[export]") {
  std::set<std::string> used;
  const auto collect = [&](const ExportRequest& r) {
    try {
      for (const auto& [flag, value] : arguments(r)) used.insert(flag);
    } catch (const InputError&) {
    }
  };
  for (const auto& name : architecture_names()) collect(preset_request(name, 8));
  for (const auto* changes : {&architecture_changes(), &plan_changes()})
    for (const auto& change : *changes) {
      ExportRequest r = ladder_request();
      change.second(r);
      collect(r);
    }
  ExportRequest r = ladder_request();
  r.cluster.stack.expert_overlap = true, r.plan.virtual_stages = 3, r.plan.schedule = Schedule::interleaved;
  collect(r);
  r = ladder_request();
  r.cluster.stack.shared_overlap = true, r.cluster.stack.gradient_bytes = 2;
  collect(r);
  r = ladder_request();
  r.architecture.layers = 46, r.plan.pp = 4, r.plan.dp = 32;
  collect(r);
  r = ladder_request();
  r.plan.pp = 1, r.plan.dp = 128, r.plan.zero = 2;
  collect(r);
  CHECK(used ==
        kMegatronArguments);  // both ways: an argument that is never used is a field that is never mapped
}

TEST_CASE("every field of the architecture is mapped or refused by name", "[export]") {
  std::set<std::string> changed;
  for (const auto& change : architecture_changes()) changed.insert(change.first);
  for (const auto& field : architecture_fields()) {
    const std::string key(field.key);
    // Labels; what comes with attention = mla, window and mamba_layers; refused together with `pattern`.
    static const std::set<std::string> beside{
        "rung",        "split",          "left_out",    "source",       "q_lora",    "kv_lora",
        "qk_nope",     "qk_rope",        "v_head",      "window_share", "pattern",   "mamba_layers",
        "mamba_heads", "mamba_head_dim", "mamba_state", "mamba_groups", "mamba_conv"};
    INFO(key);
    CHECK(changed.count(key) + beside.count(key) == 1);
  }
  for (const auto& format : export_formats())
    for (const auto& change : architecture_changes()) check_change(base_of(format), change, format);
}

TEST_CASE("the widths of latent attention are mapped", "[export]") {
  for (const auto& format : export_formats()) {
    ExportRequest base = preset_request("deepseek_v3,mtp_layers=0", 64);
    const std::vector<std::int64_t Architecture::*> widths{&Architecture::q_lora, &Architecture::kv_lora,
                                                           &Architecture::qk_nope, &Architecture::qk_rope,
                                                           &Architecture::v_head};
    for (const auto width : widths) {
      ExportRequest r = base;
      r.architecture.*width += 64;
      CHECK(all_text(export_plan(r, format)) != all_text(export_plan(base, format)));
    }
  }
}

TEST_CASE("every field of the plan is mapped or refused by name", "[export]") {
  for (const auto& format : export_formats())
    for (const auto& change : plan_changes()) {
      ExportRequest r = base_of(format);
      const std::string field = change.first;
      // Bases without tp and pp: the change of one degree takes it from dp.
      if (r.plan.tp == 1 && (field == "tp" || field == "cp" || field == "pp")) {
        const Change degree{change.first, [&](ExportRequest& q) {
                              (field == "tp"   ? q.plan.tp
                               : field == "cp" ? q.plan.cp
                                               : q.plan.pp) = 2,
                                                 q.plan.dp = 128, q.plan.ep = 1;
                            }};
        r.plan.ep = 1;
        check_change(r, degree, format);
      } else if (field == "zero" && r.plan.zero == 3) {
        check_change(r, {"zero", [](ExportRequest& q) { q.plan.zero = 1; }}, format);
        check_change(r, {"zero", [](ExportRequest& q) { q.plan.zero = 2; }}, format);
      } else {
        check_change(r, change, format);
      }
    }
}

TEST_CASE("what a framework cannot express is named", "[export]") {
  ExportRequest r = ladder_request();
  r.plan.schedule = Schedule::dualpipe;
  for (const char* format : {"megatron-lm", "megatron-bridge", "nemo"})
    CHECK_THROWS_WITH(export_plan(r, format), Contains("schedule = dualpipe"));
  ExportRequest d = base_of("deepspeed");
  d.plan.etp = 2;
  CHECK_THROWS_WITH(export_plan(d, "deepspeed"), Contains("DeepSpeed cannot express etp = 2"));
  d = base_of("deepspeed");
  d.plan.pp = 2, d.plan.dp = 128;
  CHECK_THROWS_WITH(export_plan(d, "deepspeed"), Contains("pp = 2"));
  CHECK_THROWS_WITH(export_plan(ladder_request(), "torchtitan"), Contains("dense_layers = 1"));
  CHECK_THROWS_WITH(export_plan(ladder_request(), "megatron"), Contains("megatron-lm"));
}

TEST_CASE("plans that cannot start are refused in any format", "[export]") {
  for (const auto& format : export_formats()) {
    ExportRequest r = base_of(format);
    r.plan.dp /= 2;
    CHECK_THROWS_AS(export_plan(r, format), InputError);
    r = base_of(format);
    r.plan.batch += 1;
    CHECK_THROWS_AS(export_plan(r, format), InputError);
    r = base_of(format);
    r.plan.ep = 7;
    CHECK_THROWS_AS(export_plan(r, format), InputError);
    r = base_of(format);
    r.sequence = 0;
    CHECK_THROWS_AS(export_plan(r, format), InputError);
  }
}

TEST_CASE("DeepSpeed's JSON and model", "[export]") {
  ExportRequest r = base_of("deepspeed");
  const Export e = export_plan(r, "deepspeed");
  REQUIRE(e.files.size() == 2);
  const Json j = Json::parse(e.files[0].text);
  CHECK(j["train_batch_size"] == 1024);
  CHECK(j["train_micro_batch_size_per_gpu"] == 2);
  CHECK(j["gradient_accumulation_steps"] == 2);
  CHECK(j["zero_optimization"]["stage"] == 3);
  CHECK(j["bf16"]["enabled"] == true);
  CHECK(j["expert_parallel"]["autoep_size"] == 16);
  CHECK(j["expert_parallel"]["num_experts_attr"] == "n_routed_experts");
  CHECK(Json::parse(e.files[1].text)["model_type"] == "glm4_moe");
  r.plan.tp = 2, r.plan.dp = 128, r.plan.ep = 1;
  CHECK(Json::parse(export_plan(r, "deepspeed").files[0].text)["tensor_parallel"]["autotp_size"] == 2);
}

TEST_CASE("the exported Hugging Face models are read back as the same geometry", "[export]") {
  int written = 0;
  for (std::string name : architecture_names()) {
    ExportRequest r = preset_request(name + ",mtp_layers=0", 8);
    Export e;
    try {
      e = export_plan(r, "deepspeed");
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Contains("DeepSpeed cannot express "));
      continue;
    }
    ++written;
    INFO(name);
    const Json config = Json::parse(e.files.at(1).text);
    CAPTURE(config["model_type"]);
    const Architecture back = architecture_from_huggingface(e.files.at(1).text, "config.json");
    Json given = architecture_json(r.architecture), read = architecture_json(back);
    for (const char* label : {"name", "left_out", "source", "q", "split"})
      given.erase(label), read.erase(label);
    if (config["model_type"] == "glm4_moe")
      given.erase("router_bias"), read.erase("router_bias");  // always there; noted
    if (r.architecture.dense_ffn == 0 || r.architecture.ffn_layer_count() == r.architecture.moe_layer_count())
      given.erase("dense_ffn"), read.erase("dense_ffn");  // no layer has that width
    CHECK(read == given);
  }
  CHECK(written >= 15);
}

TEST_CASE("torchtitan's TOML and flavor", "[export]") {
  const auto read = [](const ExportRequest& r) {
    return parse_toml_text(export_plan(r, "torchtitan").files.at(0).text, "torchtitan.toml");
  };
  ExportRequest r = preset_request("deepseek_v3,mtp_layers=0", 256);
  r.cluster.stack.schedules.clear();
  r.plan.tp = 2, r.plan.pp = 2, r.plan.dp = 64, r.plan.ep = 32, r.plan.etp = 1, r.plan.virtual_stages = 2,
  r.plan.batch = 1024;
  r.plan.schedule = Schedule::interleaved, r.plan.recompute = Recompute::full,
  r.plan.precision = Precision::fp8;
  const toml::table t = read(r);
  CHECK(t["model"]["name"].value<std::string>() == "deepseek_v3");
  CHECK(t["experimental"]["custom_import"].value<std::string>() == t["model"]["flavor"].value<std::string>());
  CHECK(t["training"]["global_batch_size"].value<int>() == 1024);
  CHECK(t["training"]["local_batch_size"].value<int>() == 16);
  CHECK(t["training"]["seq_len"].value<int>() == 1024);
  const auto p = t["parallelism"];
  CHECK(p["tensor_parallel_degree"].value<int>() == 2);
  CHECK(p["pipeline_parallel_degree"].value<int>() == 2);
  CHECK(p["pipeline_parallel_schedule"].value<std::string>() == "Interleaved1F1B");
  CHECK(p["pipeline_parallel_microbatch_size"].value<int>() == 1);
  CHECK(p["data_parallel_shard_degree"].value<int>() == 64);
  CHECK(p["expert_parallel_degree"].value<int>() == 32);
  CHECK(p["expert_tensor_parallel_degree"].value<int>() == 1);
  CHECK(p["fsdp_reshard_after_forward"].value<std::string>() == "always");
  const auto* parts = p["module_fqns_per_model_part"].as_array();  // 61 layers on 4 parts: 16 15 15 15
  REQUIRE(parts);
  REQUIRE(parts->size() == 4);
  CHECK(parts->get(0)->as_array()->size() == 17);
  CHECK(parts->get(3)->as_array()->size() == 17);
  CHECK(t["activation_checkpoint"]["mode"].value<std::string>() == "full");
  CHECK(t["quantize"]["linear"]["float8"]["recipe_name"].value<std::string>() == "rowwise");

  ExportRequest dense = preset_request("llama3_8b", 8);
  CHECK(read(dense)["model"]["name"].value<std::string>() == "llama3");
  dense.plan.zero = 1;
  CHECK_THROWS_WITH(export_plan(dense, "torchtitan"), Contains("zero = 1"));
  dense.plan.zero = 2, dense.plan.pp = 2, dense.plan.dp = 4;
  CHECK(read(dense)["parallelism"]["pipeline_parallel_layers_per_stage"].value<int>() == 16);
}

TEST_CASE("llama3's FFN width comes out exactly", "[export]") {
  // torchtitan: h = int(2/3 * 4 dim); h = int(factor * h); rounded up to a multiple.
  for (const std::int64_t width : {14336, 11008, 28672, 8192, 5632, 1024, 10923}) {
    ExportRequest r = preset_request("llama3_8b,dense_ffn=" + std::to_string(width), 8);
    const std::string text = export_plan(r, "torchtitan").files.at(1).text;
    const auto value = [&](const std::string& key) {
      return text.substr(text.find(key + "=") + key.size() + 1);
    };
    const std::int64_t multiple = std::stoll(value("multiple_of"));
    std::int64_t h = 2 * (4 * r.architecture.hidden) / 3;
    if (value("ffn_dim_multiplier").rfind("None", 0) != 0)
      h = static_cast<std::int64_t>(std::stod(value("ffn_dim_multiplier")) * static_cast<double>(h));
    CHECK(multiple * ((h + multiple - 1) / multiple) == width);
  }
}

TEST_CASE("exported Python is Python", "[export]") {
  if (std::system("python3 -c 'import ast' > /dev/null 2>&1") != 0) {
    WARN("python3 is missing: the recipes' syntax was not checked");
    return;
  }
  const auto folder =
      std::filesystem::temp_directory_path() / ("tessera_export_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto parses = [&](const Export& e) {
    for (const auto& file : e.files) {
      if (std::filesystem::path(file.name).extension() != ".py") continue;
      std::ofstream(folder / file.name) << file.text;
      const std::string command =
          "python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read())' " + (folder / file.name).string();
      CHECK(std::system(command.c_str()) == 0);
    }
  };
  ExportRequest uneven = ladder_request();
  uneven.architecture.layers = 46, uneven.plan.pp = 4, uneven.plan.dp = 32,
  uneven.plan.recompute = Recompute::super_selective;
  uneven.plan.precision = Precision::nvfp4;
  for (const char* format : {"megatron-bridge", "nemo"})
    for (const auto& r : {ladder_request(), uneven, preset_request("deepseek_v3", 64),
                          preset_request("gpt_oss_20b", 8), preset_request("llama3_8b", 8)})
      parses(export_plan(r, format));
  parses(export_plan(preset_request("deepseek_v3,mtp_layers=0", 64), "torchtitan"));
  parses(export_plan(preset_request("llama3_8b", 8), "torchtitan"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("recipes hold every degree and width", "[export]") {
  const std::string bridge = export_plan(ladder_request(), "megatron-bridge").files.at(0).text;
  const std::string nemo = export_plan(ladder_request(), "nemo").files.at(0).text;
  for (const std::string& text : {bridge, nemo})
    for (const char* part :
         {"num_layers=48,", "hidden_size=6144,", "ffn_hidden_size=15360,", "num_query_groups=8,",
          "num_moe_experts=96,", "moe_router_topk=2,", "moe_ffn_hidden_size=3840,",
          "moe_layer_freq=[0]*1+[1]*47,", "tensor_model_parallel_size=2,", "pipeline_model_parallel_size=8,",
          "expert_model_parallel_size=16,", "expert_tensor_parallel_size=1,", "sequence_parallel=True,",
          "seq_length=2048,", "vocab_size=257536,"})
      CHECK_THAT(text, Contains(part));
  CHECK_THAT(bridge, Contains("cfg.train.global_batch_size = 1024") &&
                         Contains("cfg.train.micro_batch_size = 2") &&
                         Contains("cfg.dataset.seq_length = 2048"));
  CHECK_THAT(nemo, Contains("global_batch_size=1024") && Contains("micro_batch_size=2") &&
                       Contains("num_nodes=32") && Contains("devices=8"));
}

TEST_CASE("Megatron-LM arguments are read back as the same architecture and plan", "[export]") {
  const auto check_round_trip = [](const ExportRequest& r) {
    const Export e = export_plan(r, "megatron-lm");
    const MegatronRun run = parse_megatron_arguments(
        e.files.at(0).text + "--world-size " + std::to_string(r.cluster.devices) + "\n", "arguments");
    Json given = architecture_json(r.architecture), read = architecture_json(run.architecture);
    for (const char* label : {"name", "left_out", "source", "q", "split"})
      given.erase(label), read.erase(label);
    if (r.architecture.ffn_layer_count() == r.architecture.moe_layer_count())
      given.erase("dense_ffn"), read.erase("dense_ffn");
    const std::int64_t multiple =
        128 * r.plan.tp;  // Megatron pads the vocabulary, and the importer counts that
    given["vocabulary"] = (r.architecture.vocabulary + multiple - 1) / multiple * multiple;
    CAPTURE(r.architecture.name);
    CHECK(read == given);
    CHECK(run.plan == r.plan);
    CHECK(run.sequence == r.sequence);
  };
  check_round_trip(ladder_request());
  for (const auto& change : plan_changes()) {
    ExportRequest r = ladder_request();
    change.second(r);
    INFO(change.first);
    try {
      export_plan(r, "megatron-lm");
    } catch (const InputError&) {
      continue;
    }
    check_round_trip(r);
  }
  // Choices that meet: one line each, on 128 devices.
  const auto mixed = [&](const std::string& spec, auto change) {
    ExportRequest r = preset_request(spec, 128);
    r.plan.batch = 1024, r.plan.zero = 1;
    change(r.plan);
    r.plan.dp = 128 / (r.plan.tp * r.plan.cp * r.plan.pp);
    check_round_trip(r);
  };
  mixed("deepseek_v3", [](Plan& p) { p.tp = 2, p.pp = 8, p.ep = 16, p.etp = 1, p.recompute = Recompute::selective, p.precision = Precision::fp8; });
  mixed("deepseek_v2,layers=32", [](Plan& p) { p.pp = 4, p.virtual_stages = 4, p.schedule = Schedule::interleaved, p.ep = 32, p.cp = 2, p.recompute = Recompute::full; });
  mixed("glm_45_air,mtp_layers=0,layers=48", [](Plan& p) { p.tp = 4, p.etp = 4, p.pp = 2, p.virtual_stages = 3, p.schedule = Schedule::interleaved, p.ep = 8, p.precision = Precision::mxfp8; });
  mixed("qwen15_moe_a27b", [](Plan& p) { p.tp = 2, p.cp = 2, p.pp = 2, p.ep = 4, p.etp = 2, p.micro_batch = 2, p.recompute = Recompute::super_selective; });
  mixed("llama3_405b", [](Plan& p) { p.tp = 8, p.cp = 2, p.pp = 4, p.micro_batch = 2, p.precision = Precision::nvfp4; });
  mixed("llama3_70b", [](Plan& p) { p.tp = 8, p.pp = 4, p.virtual_stages = 5, p.schedule = Schedule::interleaved, p.recompute = Recompute::selective; });
  mixed("llama3_8b", [](Plan& p) { p.zero = 0, p.cp = 4; });
  mixed("llama3_8b", [](Plan& p) { p.zero = 2, p.tp = 2, p.recompute = Recompute::full; });
  mixed("gpt_oss_20b", [](Plan& p) { p.zero = 3, p.ep = 8, p.precision = Precision::fp8; });
  mixed("ladder:q=8,experts=64,top_k=4,split=2,shared_experts=2,dense_layers=3,tied=true", [](Plan& p) { p.pp = 4, p.ep = 32, p.recompute = Recompute::super_selective, p.optimizer = Optimizer::muon; });
  int written = 0;
  for (const auto& name : architecture_names()) {
    const ExportRequest r = preset_request(name, 8);
    try {
      export_plan(r, "megatron-lm");
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Contains("Megatron-LM cannot express "));
      continue;
    }
    ++written;
    check_round_trip(r);
  }
  CHECK(written >= 20);
}
