#include "io/run_mapping.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include <fmt/format.h>

#include "io/architecture_reader.hpp"
#include "model/constants.hpp"
#include "model/recompute.hpp"
#include "model/stage_layout.hpp"
#include "tessera/error.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Condition {
  std::vector<std::pair<std::string, std::regex>> patterns;
  std::vector<std::pair<std::string, double>> bounds;
  bool met(const CsvTable& t, std::size_t row) const {
    for (const auto& [column, pattern] : patterns)
      if (!std::regex_search(t.text(row, column), pattern)) return false;
    for (const auto& [column, bound] : bounds) {
      const auto value = t.number(row, column);
      if (!value || *value <= bound) return false;
    }
    return true;
  }
};

struct Choice {
  Condition condition;
  std::string preset;
  bool generic = false;
};

struct Adjustment {
  Condition condition;
  toml::table set;
};

Condition condition_of(TomlReader& rule, const std::string& file) {
  Condition c;
  TomlReader when = rule.table("when");
  for (const auto& column : when.keys()) {
    try {
      c.patterns.emplace_back(column, std::regex(when.text(column), std::regex::icase | std::regex::optimize));
    } catch (const std::regex_error& error) {
      when.fail(column, "not a regular expression", error.what(), "mend the pattern in " + file + ".");
    }
  }
  if (rule.has("above")) {
    TomlReader above = rule.table("above");
    for (const auto& column : above.keys()) c.bounds.emplace_back(column, above.number(column));
  }
  return c;
}

unsigned module_from(const std::string& word) {
  static const std::pair<const char*, unsigned> all[] = {
      {"core-attention", kCoreAttention}, {"expert-activation", kExpertActivation}, {"separate-norms", kSeparateNorms},
      {"latent-up", kLatentUp},           {"shared-experts", kSharedExperts},       {"dense-ffn", kDenseFfn},
      {"half-matmuls", kHalfMatmuls},     {"whole-layer", kWholeLayer}};
  std::vector<std::string> known;
  for (const auto& [name, bit] : all) {
    if (word == name) return bit;
    known.emplace_back(name);
  }
  throw InputError("mapping: unknown recompute module '" + word + "'", "modules are words", suggestion(word, known));
}

struct SkipRow {
  std::string reason;
};

std::int64_t whole(const CsvTable& t, std::size_t row, const std::string& column, const std::string& what) {
  const auto value = t.number(row, column);
  if (!value) throw SkipRow{t.nonsense(row, column) ? what + " is not a number" : what + " not given"};
  if (*value < 1 || *value != std::floor(*value) || *value > 1e15) throw SkipRow{what + " is not a positive whole number"};
  return static_cast<std::int64_t>(*value);
}

std::int64_t whole_or(const CsvTable& t, std::size_t row, const std::string& column, const std::string& what, std::int64_t fallback) {
  if (t.nonsense(row, column)) throw SkipRow{what + " is not a number"};
  const auto value = t.number(row, column);
  if (!value || *value == 0) return fallback;
  return whole(t, row, column, what);
}

// Degrees and sizes that a plan holds as int.
int degree(const CsvTable& t, std::size_t row, const std::string& column, const std::string& what) {
  const std::int64_t value = whole_or(t, row, column, what, 1);
  constexpr std::int64_t kMost = 1 << 30;
  if (value > kMost) throw SkipRow{what + " is beyond any cluster"};
  return static_cast<int>(value);
}

// A measured figure: nothing where the cell is blank.
std::optional<double> measured(const CsvTable& t, std::size_t row, const std::string& column, const std::string& what) {
  const auto value = t.number(row, column);
  if (t.nonsense(row, column) || (value && *value < 0)) throw SkipRow{what + " is not a positive number"};
  return value && *value > 0 ? value : std::nullopt;
}

// Everything the rules decide about a row.
struct Decision {
  toml::table set;  // merged, later rules win
};

Precision precision_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  if (text.find("NVFP4") != std::string::npos || text.find("FP4") != std::string::npos) return Precision::nvfp4;
  if (text.find("MX") != std::string::npos) return Precision::mxfp8;
  if (text.find("FP8") != std::string::npos) return Precision::fp8;
  return Precision::bf16;
}

// A table of runs without its release: "NVIDIA DGX Cloud benchmarking v24.11.1" -> "NVIDIA DGX Cloud benchmarking".
std::string publisher_of(const std::string& source) {
  static const std::regex release("\\s+v?[0-9]+\\.[0-9].*$");
  return std::regex_replace(source.substr(0, source.find_first_of(",(")), release, "");
}

bool same_word(const toml::table& set, const char* key, const char* word) {
  const auto text = set[key].value<std::string>();
  return text && *text == word;
}

// The measured step time and memory of a row whose plan is read.
void read_figures(const CsvTable& t, std::size_t row, MappedRun& run) {
  const Plan& p = run.plan;
  const double devices = double(run.cluster.cluster.devices);
  run.seconds = measured(t, row, "step_s", "step time");
  if (!run.seconds) run.seconds = measured(t, row, "step_s_derived", "step time");
  if (!run.seconds)
    if (const auto rate = measured(t, row, "tok_s_gpu", "tokens/s")) run.seconds = double(p.batch) * double(run.sequence) / (*rate * devices);
  if (const auto gib = measured(t, row, "peak_mem_gib", "memory")) run.memory = *gib * kGiB;
  else if (run.memory_kind == MemoryKind::nvidia_smi) {
    static const std::regex number("^\\s*([0-9]+(\\.[0-9]+)?)\\s*G(i)?B", std::regex::icase);
    std::smatch m;
    const std::string& raw = t.text(row, "mem_raw");
    if (std::regex_search(raw, m, number)) run.memory = std::stod(m[1]) * kGiB;  // nvidia-smi counts MiB
  }
  if (run.memory && run.memory_kind == MemoryKind::none) run.memory_kind = MemoryKind::allocated;
  if (!run.memory) run.memory_kind = MemoryKind::none;
  if (!run.seconds && !run.memory) throw SkipRow{"no step time, tokens/s or memory"};
  if (run.seconds) {
    const double flop = double(p.batch) * double(run.sequence) * token_flops(run.architecture, run.sequence, Recompute::none).model;
    if (flop > *run.seconds * devices * run.cluster.cluster.peak(p.precision)) throw SkipRow{"faster than the peak of the device"};
  }
}

}  // namespace

std::string_view to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::allocated: return "allocated";
    case MemoryKind::reserved: return "reserved";
    case MemoryKind::nvidia_smi: return "nvidia-smi";
    case MemoryKind::none: break;
  }
  return "";
}

struct RunMapping::Impl {
  const Presets& presets;
  std::vector<Choice> devices, fabrics, stacks;
  std::vector<Adjustment> adjustments;
  mutable std::map<std::string, SourcedCluster> clusters;
  mutable std::map<std::string, Architecture> architectures;
  std::vector<std::string> known_architectures = architecture_names();
  toml::table table;

  Impl(const Presets& p, const std::string& file) : presets(p) {
    table = file.empty() ? parse_toml_text(p.text("mapping", "runs"), "preset mapping/runs") : parse_toml_file(file);
    const std::string name = file.empty() ? "preset mapping/runs" : file;
    TomlReader r(table, name);
    r.accept("title");
    auto choices = [&](const char* key, std::vector<Choice>& out) {
      for (TomlReader& rule : r.tables(key)) {
        Choice c;
        c.condition = condition_of(rule, name);
        c.preset = rule.text("preset");
        c.generic = rule.flag("generic", false);
        rule.finish();
        out.push_back(std::move(c));
      }
    };
    choices("device", devices);
    choices("fabric", fabrics);
    choices("stack", stacks);
    for (TomlReader& rule : r.tables("adjust")) {
      Adjustment a;
      a.condition = condition_of(rule, name);
      a.set = rule.table("set").raw();
      rule.finish();
      adjustments.push_back(std::move(a));
    }
    r.finish();
  }

  const Choice& choose(const std::vector<Choice>& from, const CsvTable& t, std::size_t row, const std::string& what) const {
    for (const Choice& c : from)
      if (c.condition.met(t, row)) return c;
    throw SkipRow{"no " + what + " preset applies"};
  }

  Architecture architecture(const CsvTable& t, std::size_t row, const toml::table& set) const;
  void apply(const toml::table& set, MappedRun& run, const Architecture& a) const;
  MappedRun map_row(const CsvTable& t, std::size_t row) const;
};

Architecture RunMapping::Impl::architecture(const CsvTable& t, std::size_t row, const toml::table& set) const {
  const std::string key = set["model"].value_or(t.text(row, "model_key"));
  Architecture a;
  const bool known = std::find(known_architectures.begin(), known_architectures.end(), key) != known_architectures.end();
  if (known) {
    auto at = architectures.find(key);
    if (at == architectures.end()) at = architectures.emplace(key, read_architecture(key)).first;
    a = at->second;
    a.mtp_layers = 0;
  } else {
    for (const char* column : {"layers", "hidden", "heads", "ffn", "vocab"})
      if (!t.number(row, column) && !t.nonsense(row, column)) throw SkipRow{"geometry not given"};
    a.name = key;
    a.gated = set["gated"].value_or(true);
    a.tied = set["tied"].value_or(false);
  }
  auto own = [&](const char* column, const char* what, std::int64_t& field) {
    if (t.nonsense(row, column)) throw SkipRow{std::string(what) + " is not a number"};
    if (t.number(row, column)) field = whole(t, row, column, what);
  };
  const Architecture preset = a;
  own("layers", "layers", a.layers);
  own("hidden", "hidden", a.hidden);
  own("heads", "heads", a.heads);
  own("kv_heads", "kv_heads", a.kv_heads);
  own("vocab", "vocab", a.vocabulary);
  const std::int64_t experts = whole_or(t, row, "experts", "experts", a.experts);
  if (experts > 1) {
    a.experts = experts;
    own("topk", "topk", a.top_k);
    own("ffn", "ffn", a.expert_ffn);
  } else {
    a.experts = a.top_k = a.expert_ffn = a.shared_ffn = 0;
    own("ffn", "ffn", a.dense_ffn);
  }
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.head_dim == 0 || a.heads != preset.heads || a.hidden != preset.hidden) {
    if (a.attention == AttentionKind::gqa && (known ? a.hidden != preset.hidden || a.heads != preset.heads : true))
      a.head_dim = a.heads > 0 ? a.hidden / a.heads : 0;
  }
  if (a.layers < preset.layers) {  // a cut model keeps the pattern, with at least one MoE layer
    a.dense_layers = std::min(a.dense_layers, std::max<std::int64_t>(0, a.layers - 1));
    a.mtp_layers = 0;
  }
  a.dense_layers = set["dense_layers"].value_or(a.dense_layers);
  a.mtp_layers = set["mtp"].value_or(a.mtp_layers);
  try {
    check(a);
  } catch (const InputError& error) {
    throw SkipRow{std::string("inconsistent geometry: ") + error.what()};
  }
  if (a.mamba_layers > 0) throw SkipRow{"state-space hybrid"};
  return a;
}

void RunMapping::Impl::apply(const toml::table& set, MappedRun& run, const Architecture& a) const {
  Stack& s = run.cluster.cluster.stack;
  for (const auto& [key, node] : set) {
    const std::string name(key.str());
    if (name == "zero") run.plan.zero = static_cast<int>(node.value_or(std::int64_t{1}));
    else if (name == "micro_batch") run.plan.micro_batch = static_cast<int>(node.value_or(std::int64_t{1}));
    else if (name == "modules") {
      run.modules = 0;
      for (const auto& word : *node.as_array()) run.modules |= module_from(word.value_or(std::string()));
    } else if (name == "virtual_stages") {
      run.plan.virtual_stages = same_word(set, "virtual_stages", "layers") ? int(std::max<std::int64_t>(1, a.layers / std::max(1, run.plan.pp)))
                                                                          : int(node.value_or(std::int64_t{1}));
    } else if (name == "etp") {
      run.plan.etp = same_word(set, "etp", "tp") ? run.plan.tp : int(node.value_or(std::int64_t{1}));
    } else if (name == "precision") run.plan.precision = precision_of(node.value_or(std::string()));
    else if (name == "memory_kind") {
      const auto word = node.value_or(std::string());
      run.memory_kind = word == "allocated" ? MemoryKind::allocated : word == "reserved" ? MemoryKind::reserved : MemoryKind::nvidia_smi;
    } else if (name == "graph") s.graph = same_word(set, "graph", "full") ? GraphMode::full : same_word(set, "graph", "partial") ? GraphMode::partial : GraphMode::none;
    else if (name == "dispatcher") s.dispatcher = same_word(set, "dispatcher", "deduplicated") ? Dispatcher::deduplicated : Dispatcher::all_to_all;
    else if (name == "stack" || name == "model" || name == "gated" || name == "tied" || name == "mtp" || name == "dense_layers" || name == "batch") continue;
    else {
      bool found = false;
      for (const auto& f : stack_flags())
        if (f.key == name) s.*f.member = node.value_or(false), found = true;
      for (const auto& f : stack_constants())
        if (f.key == name) {
          s.*f.member = node.value_or(0.0), found = true;
          run.cluster.sources.erase("stack." + name);
        }
      if (!found) throw InputError("mapping: unknown key '" + name + "' in a `set`", "nothing reads it", "use a plan key or a key of a stack preset.");
    }
  }
}

MappedRun RunMapping::Impl::map_row(const CsvTable& t, std::size_t row) const {
  toml::table set;
  for (const Adjustment& a : adjustments)
    if (a.condition.met(t, row))
      for (const auto& [key, node] : a.set) set.insert_or_assign(key, node);
  if (const auto reason = set["skip"].value<std::string>(); reason && !reason->empty()) throw SkipRow{*reason};
  set.erase("skip");

  MappedRun run;
  run.row_id = t.text(row, "row_id");
  if (run.row_id.empty()) run.row_id = std::to_string(t.line(row));
  run.source = t.text(row, "source");
  run.framework = t.text(row, "framework");
  run.gpu = t.text(row, "gpu");
  run.model = t.text(row, "model_key");
  if (run.gpu.empty()) throw SkipRow{"gpu not given"};
  const Choice &d = choose(devices, t, row, "device"), &f = choose(fabrics, t, row, "fabric"), &s = choose(stacks, t, row, "stack");
  run.device = d.preset;
  run.fabric = f.preset;
  run.stack = set["stack"].value_or(s.preset);
  run.generic = d.generic || f.generic || s.generic;
  const std::int64_t devices_count = whole(t, row, "n_gpus", "n_gpus");
  const std::string cluster_key = run.device + "|" + run.fabric + "|" + run.stack;
  auto at = clusters.find(cluster_key);
  if (at == clusters.end()) at = clusters.emplace(cluster_key, presets.cluster(run.device, run.fabric, run.stack, 8)).first;
  run.cluster = at->second;
  run.cluster.cluster.devices = devices_count;
  run.architecture = architecture(t, row, set);

  Plan& p = run.plan;
  p.tp = degree(t, row, "tp", "tp");
  p.pp = degree(t, row, "pp", "pp");
  p.cp = degree(t, row, "cp", "cp");
  p.ep = degree(t, row, "ep", "ep");
  p.etp = degree(t, row, "etp", "etp");
  p.virtual_stages = degree(t, row, "vpp", "virtual stages");
  whole(t, row, "mbs", "micro-batch");  // is given
  p.micro_batch = degree(t, row, "mbs", "micro-batch");
  p.precision = precision_of(t.text(row, "precision"));
  run.sequence = whole(t, row, "seq_len", "sequence");
  apply(set, run, run.architecture);
  if (!run.architecture.is_moe()) p.ep = p.etp = 1;
  if (p.pp == 1) p.virtual_stages = 1;
  p.schedule = p.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  const std::int64_t model_ranks = std::int64_t{1} * p.tp * p.pp * p.cp;
  if (devices_count % model_ranks) throw SkipRow{"mesh does not tile the devices"};
  p.dp = int(devices_count / model_ranks);
  if (!t.number(row, "gbs_seq") && same_word(set, "batch", "dp*mbs")) p.batch = std::int64_t{1} * p.dp * p.micro_batch;
  else p.batch = whole(t, row, "gbs_seq", "batch");
  if (p.micro_batches() < 1 || p.batch % (std::int64_t{1} * p.dp * p.micro_batch)) throw SkipRow{"batch is no multiple of micro-batch x data-parallel ranks"};
  if (run.architecture.is_moe() && (std::int64_t{1} * p.tp * p.cp * p.dp) % (std::int64_t{1} * p.ep * p.etp))
    throw SkipRow{"expert mesh does not tile a stage"};
  if (run.architecture.is_moe() && run.architecture.experts % p.ep) throw SkipRow{"ep does not divide the experts"};
  if (run.cluster.cluster.peak(p.precision) <= 0) throw SkipRow{"the device has no such number format"};
  Stack spread = run.cluster.cluster.stack;
  spread.uneven_stages = true;  // the run existed: its stack could
  run.cluster.cluster.stack.uneven_stages = true;
  if (!can_spread(run.architecture, spread, std::int64_t{1} * p.pp * p.virtual_stages)) throw SkipRow{"more pipeline parts than layers"};

  read_figures(t, row, run);
  run.publisher = publisher_of(run.source);
  run.plan_key = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", run.model, run.architecture.layers, run.device, devices_count, int(p.precision),
                             p.tp, p.pp, p.cp, p.ep, p.etp, p.virtual_stages, p.micro_batch, p.batch, run.sequence, run.modules);
  return run;
}

RunMapping::RunMapping(const Presets& p, const std::string& file) : impl_(std::make_unique<Impl>(p, file)) {}
RunMapping::~RunMapping() = default;

MappedRuns RunMapping::map(const CsvTable& t, const std::vector<std::string>& qualities) const {
  MappedRuns out;
  out.rows = t.rows();
  std::map<std::string, std::size_t> skipped;
  for (std::size_t row = 0; row < t.rows(); ++row) {
    const std::string quality = t.text(row, "quality");
    if (!qualities.empty() && t.has("quality") && std::find(qualities.begin(), qualities.end(), quality) == qualities.end()) {
      ++skipped["quality '" + quality + "' not asked for"];
      continue;
    }
    try {
      out.runs.push_back(impl_->map_row(t, row));
    } catch (const SkipRow& skip) {
      ++skipped[skip.reason];
    }
  }
  std::map<std::string, int> repeats;
  for (const MappedRun& r : out.runs) ++repeats[r.plan_key];
  for (MappedRun& r : out.runs) r.weight = 1 / std::sqrt(double(repeats[r.plan_key]));
  out.skipped.assign(skipped.begin(), skipped.end());
  std::stable_sort(out.skipped.begin(), out.skipped.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

}  // namespace tessera
