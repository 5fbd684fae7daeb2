#include "io/megatron_arguments.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "io/architecture_reader.hpp"
#include "io/launch_words.hpp"
#include "io/text_file.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostDevices = 1 << 20;  // above any cluster; products of three degrees stay in 64 bits

/// Arguments by name without dashes; underscores and dashes are the same, as torchrun and argparse have it.
class Arguments {
 public:
  Arguments(const std::vector<std::string>& words, std::string name) : name_(std::move(name)) {
    std::string current;
    for (const std::string& word : words) {
      if (is_name(word)) {
        current = canonical(word);
        values_[current].clear();  // the last one counts, as in argparse
      } else if (!current.empty()) {
        values_[current].push_back(word);
      }
    }
  }

  bool has(const std::string& key) {
    const bool found = values_.count(key) > 0;
    if (found) used_.insert(key);
    return found;
  }
  /// A switch: present, and not followed by "false" (as argument files in YAML write it).
  bool flag(const std::string& key) {
    if (!has(key)) return false;
    const auto& values = values_[key];
    return values.empty() || (values.front() != "false" && values.front() != "False" && values.front() != "0");
  }
  std::string text(const std::string& key, const std::string& fallback) {
    if (!has(key)) return fallback;
    if (values_[key].empty()) throw InputError(where(key) + ": no value", "it needs one", "write --" + key + " VALUE.");
    return values_[key].front();
  }
  std::vector<std::string> texts(const std::string& key) { return has(key) ? values_[key] : std::vector<std::string>(); }
  std::int64_t integer(const std::string& key) {
    if (!has(key)) throw InputError(where(key) + ": missing argument", "it has no default", "add --" + key + " N.");
    return parse_whole(text(key, ""), where(key));
  }
  std::int64_t integer(const std::string& key, std::int64_t fallback) {
    if (!has(key) || text(key, "") == "None" || text(key, "") == "null") return fallback;
    return parse_whole(text(key, ""), where(key));
  }
  int degree(const std::string& key, int fallback) {
    const std::int64_t value = integer(key, fallback);
    if (value < 1 || value > kMostDevices)
      throw InputError(where(key) + " = " + std::to_string(value), "a number from 1 to " + std::to_string(kMostDevices) + " is needed", "give a positive whole number.");
    return static_cast<int>(value);
  }
  std::string where(const std::string& key) const { return name_ + ": --" + key; }
  std::vector<std::string> used() const {
    std::vector<std::string> out;
    for (const auto& key : used_) out.push_back("--" + key);
    return out;
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> out;
    for (const auto& [key, values] : values_)
      if (!used_.count(key)) out.push_back("--" + key);
    return out;
  }

 private:
  static bool is_name(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }
  static std::string canonical(const std::string& word) {
    std::string key = word.substr(2);
    std::replace(key.begin(), key.end(), '_', '-');
    return key;
  }
  std::string name_;
  std::map<std::string, std::vector<std::string>> values_;
  std::set<std::string> used_;
};

/// "[0]*3+[1]*58", "([0,1]*16)" -> a value per layer. Empty where the text is no such list.
std::optional<std::vector<int>> layer_list(std::string text) {
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  std::vector<int> out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '[') return std::nullopt;
    const auto close = text.find(']', at);
    if (close == std::string::npos) return std::nullopt;
    std::vector<int> item;
    for (std::size_t i = at + 1; i < close; ++i) {
      if (text[i] == '0' || text[i] == '1') item.push_back(text[i] - '0');
      else if (text[i] != ',') return std::nullopt;
    }
    at = close + 1;
    std::int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      const auto end = std::min(text.find('+', at), text.size());
      times = parse_whole(text.substr(at + 1, end - at - 1), "list of layers");
      at = end;
    }
    if (times < 0 || times > (1 << 20) || item.size() * static_cast<std::size_t>(times) > (std::size_t{1} << 20)) return std::nullopt;
    for (std::int64_t k = 0; k < times; ++k) out.insert(out.end(), item.begin(), item.end());
    if (at < text.size() && text[at++] != '+') return std::nullopt;
  }
  return out;
}

/// Which layers are MoE (--moe-layer-freq: an integer n for layers 0, n, 2n, ..., or a list).
void moe_placement(Arguments& in, MegatronRun& run) {
  Architecture& a = run.architecture;
  const std::string text = in.text("moe-layer-freq", "1");
  const std::string where = in.where("moe-layer-freq") + " = " + text;
  if (text.find('[') == std::string::npos) {
    const std::int64_t every = parse_whole(text, in.where("moe-layer-freq"));
    if (every < 1 || (every > 1 && a.layers % every != 0))
      throw InputError(where, "layers 0, n, 2n, ... are MoE, which has a counterpart here only where n divides the layers", "give a list of 0 and 1.");
    a.moe_every = every;
    if (every > 1) run.assumed.push_back("MoE layers are the last of each group of " + text + ", not the first (same number).");
    return;
  }
  const auto list = layer_list(text);
  if (!list || static_cast<std::int64_t>(list->size()) != a.layers)
    throw InputError(where, "a 0 or 1 for each of the " + std::to_string(a.layers) + " layers is needed", "write for example ([0]*3+[1]*58).");
  for (std::int64_t every = 1; every <= a.layers; ++every)
    for (std::int64_t dense = 0; dense <= (every == 1 ? a.layers : 0); ++dense) {
      Architecture trial;
      trial.layers = a.layers;
      trial.experts = 1;
      trial.moe_every = every;
      trial.dense_layers = dense;
      bool same = true;
      for (std::int64_t i = 0; i < a.layers && same; ++i) same = trial.moe_layer(i) == ((*list)[static_cast<std::size_t>(i)] == 1);
      if (!same) continue;
      a.moe_every = every;
      a.dense_layers = dense;
      return;
    }
  throw InputError(where, "only the first layers dense, or every n-th layer MoE, can be described", "use one of these patterns.");
}

void read_attention(Arguments& in, MegatronRun& run) {
  Architecture& a = run.architecture;
  a.heads = in.integer("num-attention-heads");
  const bool grouped = in.flag("group-query-attention");
  const std::int64_t groups = in.integer("num-query-groups", 1);
  a.kv_heads = grouped ? groups : a.heads;
  a.head_dim = in.integer("kv-channels", 0);
  if (in.flag("multi-latent-attention")) {
    a.attention = AttentionKind::mla;
    a.q_lora = in.integer("q-lora-rank", 0);
    a.kv_lora = in.integer("kv-lora-rank", 32);
    a.qk_nope = in.integer("qk-head-dim", 128);
    a.qk_rope = in.integer("qk-pos-emb-head-dim", 64);
    a.v_head = in.integer("v-head-dim", 128);
    a.kv_heads = a.heads;
    a.head_dim = 0;
  } else if (in.flag("qk-layernorm")) {
    a.qk_norm = QkNorm::per_head;
  }
  if (const auto softmax = in.texts("softmax-type"); !softmax.empty()) a.attention_sinks = softmax.front() == "learnable";
  const bool biases = !in.flag("disable-bias-linear");
  a.qkv_bias = (biases || in.flag("add-qkv-bias")) && a.attention == AttentionKind::gqa;
  a.out_bias = a.ffn_bias = biases;
  if (const auto window = in.texts("window-size"); !window.empty()) {
    std::string first = window.front();
    std::erase_if(first, [](char c) { return c == '(' || c == ' '; });
    a.window = parse_whole(first.substr(0, first.find(',')), in.where("window-size")) + 1;  // left neighbours, and the token itself
    const std::int64_t full = in.integer("window-attn-skip-freq", 0);  // every n-th layer sees everything
    a.window_share = full > 0 ? static_cast<double>(full - 1) / static_cast<double>(full) : 1.0;
    if (a.window_share == 0) a.window = 0;
  }
}

void read_ffn(Arguments& in, MegatronRun& run) {
  Architecture& a = run.architecture;
  const bool quick = in.flag("quick-geglu");
  a.gated = in.flag("swiglu") || quick;
  // A clamped or shifted GLU runs op by op.
  const bool clamped = in.has("activation-func-clamp-value"), shifted = in.has("glu-linear-offset");
  if (clamped) in.texts("activation-func-clamp-value");
  if (shifted) in.texts("glu-linear-offset");
  if (a.gated && (clamped || shifted)) a.unfused_activation = 1.0;
  in.flag("squared-relu");
  // Megatron's default: 4h, or for a gated FFN two thirds of it, rounded down to a multiple of 64.
  a.dense_ffn = in.integer("ffn-hidden-size", a.gated ? 4 * a.hidden * 2 / 3 / 64 * 64 : 4 * a.hidden);
  a.experts = in.integer("num-experts", 0);
  if (a.experts == 0) return;
  a.top_k = in.integer("moe-router-topk", 2);
  a.expert_ffn = in.integer("moe-ffn-hidden-size", a.dense_ffn);
  a.shared_ffn = in.integer("moe-shared-expert-intermediate-size", 0);
  a.shared_gate = in.flag("moe-shared-expert-gate");
  a.router_bias = in.flag("moe-router-enable-expert-bias") || a.ffn_bias;  // with biases everywhere its router has one
  moe_placement(in, run);
}

void read_vocabulary(Arguments& in, MegatronRun& run) {
  Architecture& a = run.architecture;
  if (in.has("padded-vocab-size")) {
    a.vocabulary = in.integer("padded-vocab-size");
    return;
  }
  const std::string tokenizer = in.text("tokenizer-type", "");
  std::int64_t words = 0;
  constexpr std::int64_t kGpt2Words = 50257;  // the GPT-2 BPE, which GPT2BPETokenizer always is
  if (in.has("vocab-size")) words = in.integer("vocab-size") + (tokenizer == "NullTokenizer" ? 1 : 0);  // it adds the end of document
  else if (tokenizer == "GPT2BPETokenizer") words = kGpt2Words;
  else throw InputError(in.where("vocab-size") + ": missing argument", "the vocabulary lies in the tokenizer's files", "add --vocab-size N.");
  const std::int64_t multiple = in.integer("make-vocab-size-divisible-by", 128) * run.plan.tp;
  if (multiple < 1 || words < 1 || words > (std::int64_t{1} << 40))
    throw InputError(in.where("vocab-size") + " = " + std::to_string(words), "a positive number is needed", "mend it.");
  a.vocabulary = (words + multiple - 1) / multiple * multiple;
  if (a.vocabulary != words)
    run.assumed.push_back("Vocabulary " + std::to_string(words) + " is padded to " + std::to_string(a.vocabulary) + ", a multiple of " + std::to_string(multiple) + ".");
}

void read_architecture_part(Arguments& in, MegatronRun& run, const std::string& name) {
  for (const char* key : {"hybrid-override-pattern", "hybrid-attention-ratio", "moe-latent-size", "encoder-num-layers", "decoder-num-layers"})
    if (in.has(key)) throw InputError(in.where(key) + " is not described here", "it changes the geometry of the layers", "write the architecture as TOML and the plan by --plan.");
  Architecture& a = run.architecture;
  a.name = name;
  a.source = "Megatron arguments";
  a.layers = in.integer("num-layers");
  a.hidden = in.integer("hidden-size");
  a.tied = !in.flag("untie-embeddings-and-output-weights");
  const std::string norm = in.text("normalization", "LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm") throw InputError(in.where("normalization") + " = " + norm, "LayerNorm and RMSNorm are known", "give one of them.");
  a.norm = norm == "RMSNorm" ? NormKind::rms : NormKind::layer;
  const bool rotary = in.flag("use-rotary-position-embeddings");
  const std::string positions = in.text("position-embedding-type", rotary ? "rope" : "learned_absolute");
  const std::int64_t rows = in.integer("max-position-embeddings", run.sequence);
  if (positions == "learned_absolute") a.learned_positions = rows;
  a.mtp_layers = in.integer("mtp-num-layers", 0);
  if (a.mtp_layers > 0) a.left_out = "multi-token-prediction modules";
  read_attention(in, run);
  read_ffn(in, run);
  read_vocabulary(in, run);
  complete(a, false);
}

Recompute recompute_mode(Arguments& in, MegatronRun& run) {
  const bool old_name = in.flag("recompute-activations");
  const std::string granularity = in.text("recompute-granularity", old_name ? "selective" : "none");
  const auto modules = in.texts("recompute-modules");
  const std::string method = in.text("recompute-method", "uniform");
  const std::int64_t per_group = in.integer("recompute-num-layers", 1);
  if (granularity == "full") {
    if (method != "uniform" || per_group != 1)
      run.assumed.push_back("Full recomputation by '" + method + "', " + std::to_string(per_group) + " layers, is taken as uniform, one layer.");
    return Recompute::full;
  }
  if (granularity == "none" || granularity == "None") return Recompute::none;
  if (granularity != "selective")
    throw InputError(in.where("recompute-granularity") + " = " + granularity, "full and selective are known", "give one of them.");
  const bool wide = std::any_of(modules.begin(), modules.end(), [](const std::string& module) { return module != "core_attn" && module != "moe_act"; });
  if (wide) run.assumed.push_back("The recomputed modules are taken as the set of 'super-selective'.");
  return wide ? Recompute::super_selective : Recompute::selective;
}

int zero_stage(Arguments& in, MegatronRun& run) {
  const std::string strategy = in.text("data-parallel-sharding-strategy", "");
  const bool fsdp = in.flag("use-megatron-fsdp") || in.flag("use-custom-fsdp");
  const bool torch_fsdp = in.flag("use-torch-fsdp2"), distributed = in.flag("use-distributed-optimizer");
  if (torch_fsdp) return 3;
  if (fsdp) {
    if (strategy == "optim_grads_params" || strategy.empty()) return 3;
    if (strategy == "optim_grads") return 2;
    if (strategy == "optim") return 1;
    if (strategy == "no_shard") return 0;
    throw InputError(in.where("data-parallel-sharding-strategy") + " = " + strategy, "no_shard, optim, optim_grads and optim_grads_params are known", "give one of them.");
  }
  if (!distributed) run.assumed.push_back("No distributed optimizer: every rank holds the whole optimizer state (ZeRO 0).");
  return distributed ? 1 : 0;
}

Precision precision(Arguments& in, MegatronRun& run) {
  in.flag("bf16");
  if (in.flag("fp16")) run.assumed.push_back("fp16 is taken as bf16: same speed and bytes.");
  const bool fp4 = in.has("fp4-format") || in.has("fp4"), fp8 = in.has("fp8-format") || in.has("fp8-hybrid") || in.has("fp8-e4m3") || in.has("fp8");
  const std::string recipe = in.text("fp8-recipe", "delayed");
  if (fp4) return Precision::nvfp4;
  return !fp8 ? Precision::bf16 : recipe == "mxfp8" ? Precision::mxfp8 : Precision::fp8;
}

Optimizer optimizer(Arguments& in) {
  const std::string name = in.text("optimizer", "adam");
  if (name == "adam") return Optimizer::adam;
  if (name == "muon" || name == "dist_muon") return Optimizer::muon;
  if (name == "scion") return Optimizer::scion;
  throw InputError(in.where("optimizer") + " = " + name, "adam, muon, dist_muon and scion are known", "give one of them.");
}

/// Virtual stages: layers per virtual stage, or stages per rank, whichever is given.
void read_virtual_stages(Arguments& in, MegatronRun& run) {
  Plan& plan = run.plan;
  plan.virtual_stages = in.degree("num-virtual-stages-per-pipeline-rank", 1);
  if (in.has("num-layers-per-virtual-pipeline-stage")) {
    const std::int64_t each = in.degree("num-layers-per-virtual-pipeline-stage", 1), layers = in.integer("num-layers");
    if (layers % plan.pp != 0 || layers / plan.pp % each != 0)
      throw InputError(in.where("num-layers-per-virtual-pipeline-stage") + " = " + std::to_string(each),
                       std::to_string(layers) + " layers over " + std::to_string(plan.pp) + " stages are not whole virtual stages of that size",
                       "give a divisor of the layers of a stage.");
    plan.virtual_stages = static_cast<int>(layers / plan.pp / each);
  }
  plan.schedule = plan.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
}

/// Devices of the launcher; 0 where they are not said, or only by a variable of the scheduler.
std::int64_t known_devices(Arguments& in) {
  if (in.has("world-size")) return in.degree("world-size", 1);
  if (!in.has("nproc-per-node")) return 0;
  for (const char* key : {"nproc-per-node", "nnodes"})
    if (in.text(key, "1").find('$') != std::string::npos) return 0;
  return std::int64_t{1} * in.degree("nnodes", 1) * in.degree("nproc-per-node", 1);
}

void read_plan_part(Arguments& in, MegatronRun& run) {
  Plan& plan = run.plan;
  plan.tp = in.degree("tensor-model-parallel-size", 1);
  plan.pp = in.degree("pipeline-model-parallel-size", 1);
  plan.cp = in.degree("context-parallel-size", 1);
  plan.ep = in.degree("expert-model-parallel-size", 1);
  const bool moe = in.integer("num-experts", 0) > 0;
  plan.etp = in.degree("expert-tensor-parallel-size", moe ? plan.tp : 1);
  if (moe && !in.has("expert-tensor-parallel-size") && plan.tp > 1)
    run.assumed.push_back("expert-tensor-parallel-size is not given: Megatron's default, tp = " + std::to_string(plan.tp) + ".");
  plan.micro_batch = in.degree("micro-batch-size", 1);
  read_virtual_stages(in, run);

  run.devices = known_devices(in);
  const std::int64_t model = std::int64_t{1} * plan.tp * plan.pp * plan.cp;
  if (run.devices > 0) {
    if (run.devices % model != 0)
      throw InputError(in.where("nnodes") + " and nproc-per-node: " + std::to_string(run.devices) + " devices", "tp*pp*cp = " + std::to_string(model) + " does not divide them", "change a degree.");
    const std::int64_t dp = run.devices / model;
    if (dp > kMostDevices) throw InputError(in.where("nnodes") + ": " + std::to_string(run.devices) + " devices", "no cluster has so many", "mend it.");
    plan.dp = static_cast<int>(dp);
  } else {
    // The experts' mesh ep*etp*edp = tp*cp*dp sets the least dp.
    const std::int64_t experts = std::int64_t{1} * plan.ep * plan.etp, dense = std::int64_t{1} * plan.tp * plan.cp;
    plan.dp = static_cast<int>(experts / std::gcd(experts, dense));
    run.assumed.push_back("The number of devices is not given: dp = " + std::to_string(plan.dp) + " is the least the other degrees allow.");
  }
  plan.batch = in.integer("global-batch-size", std::int64_t{1} * plan.micro_batch * plan.dp);
  if (plan.batch < 1) throw InputError(in.where("global-batch-size") + " = " + std::to_string(plan.batch), "at least 1 is needed", "give a positive number of sequences.");
  plan.recompute = recompute_mode(in, run);
  plan.zero = zero_stage(in, run);
  plan.precision = precision(in, run);
  plan.optimizer = optimizer(in);
  in.flag("sequence-parallel");  // taken for granted wherever tp > 1
  if (plan.tp > 1 && !in.has("sequence-parallel")) run.assumed.push_back("sequence-parallel is not given; it is taken as on.");
  for (const char* key : {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers", "pipeline-model-parallel-layout",
                          "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"})
    if (in.has(key)) run.assumed.push_back(std::string("--") + key + ": layers are spread over the stages by the stack's own rule instead.");
}

}  // namespace

MegatronRun parse_megatron_arguments(std::string_view text, const std::string& name) {
  Arguments in(launch_words(text, name), name);
  MegatronRun run;
  run.sequence = in.has("seq-length") ? in.integer("seq-length") : in.integer("encoder-seq-length", 0);
  if (run.sequence < 1) in.integer("seq-length", 0), throw InputError(in.where("seq-length") + ": missing argument", "it has no default", "add --seq-length N, at least 1.");
  read_plan_part(in, run);
  read_architecture_part(in, run, name);
  run.read = in.used();
  run.ignored = in.unused();
  return run;
}

MegatronRun read_megatron_arguments(const std::string& file_or_text) {
  std::error_code code;
  const bool text = file_or_text.find("--num-layers") != std::string::npos && !std::filesystem::exists(file_or_text, code);
  if (text) return parse_megatron_arguments(file_or_text, "Megatron arguments");
  return parse_megatron_arguments(read_text_file(file_or_text, "a list of Megatron arguments"), file_or_text);
}

}  // namespace tessera
