#include "io/study_reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "io/architecture_fields.hpp"
#include "io/budget_reader.hpp"
#include "io/hash.hpp"
#include "io/law_reader.hpp"
#include "io/preset_reader.hpp"
#include "io/serving_reader.hpp"
#include "io/study_architectures.hpp"
#include "io/study_source.hpp"
#include "io/text_file.hpp"
#include "io/toml_reader.hpp"
#include "io/used_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostDevices = 100'000'000;    // far above any cluster; keeps products within 64 bits
constexpr std::int64_t kMostBatch = 1'000'000'000'000;
constexpr std::int64_t kMostDegree = kMostDevices;

/// Whole numbers of a key, each from `low` to `high`, in the order given without repeats.
std::vector<std::int64_t> whole_numbers(TomlReader& reader, const std::string& key, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> out;
  for (const std::int64_t value : reader.integers(key)) {
    if (value < low || value > high)
      reader.fail(key, fmt::format("{} is out of range", value), fmt::format("a whole number from {} to {} is needed", low, high),
                  "change the value.");
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  }
  if (out.empty()) reader.fail(key, "empty list", "at least one value is needed", "give a value or a list of values.");
  return out;
}

/// Refuses unknown keys before missing ones: a misspelt key is both.
void only(TomlReader& reader, std::initializer_list<const char*> keys) {
  for (const char* key : keys) reader.accept(key);
  reader.finish();
}

template <class Read>
auto located(TomlReader& reader, std::string_view key, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    reader.fail(key, error);
  }
}

// ---------------------------------------------------------------------------------------------- [cluster]

double memory_cap_of(TomlReader& reader) {
  if (!reader.has("memory_cap")) return std::numeric_limits<double>::infinity();
  if (reader.is_text("memory_cap"))
    return located(reader, "memory_cap", [&] { return parse_bytes(reader.text("memory_cap"), "memory_cap"); });
  const double bytes = reader.number("memory_cap");
  if (bytes <= 0) reader.fail("memory_cap", "out of range", "a memory is positive", "write for example \"179 GiB\".");
  return bytes;
}

/// `p6-b200,precision=fp8` narrows the study's precision axis: one for all clusters.
void take_precision(TomlReader& reader, Study& study, std::optional<Precision> precision) {
  auto& axis = study.plan.precision.values;
  const bool first = study.clusters.empty();
  if (!first && axis.has_value() != precision.has_value())
    reader.fail("preset", "a precision on some clusters only", "precision is one axis of the whole study", "use plan.precision.");
  if (!precision) return;
  if (axis && axis->front() != *precision)
    reader.fail("preset", "two precisions", "precision is one axis of the whole study", "use plan.precision.");
  axis = std::vector<Precision>{*precision};
}

void read_clusters(TomlReader reader, Study& study) {
  only(reader, {"preset", "nodes", "devices", "memory_cap", "spare_nodes"});
  const auto specs = reader.texts("preset");
  if (specs.empty()) reader.fail("preset", "empty list", "a study needs a cluster", "name a preset, e.g. \"p6-b200\".");
  const bool by_devices = reader.has("devices");
  if (by_devices && reader.has("nodes"))
    reader.fail("devices", "both nodes and devices", "they say the same thing twice", "keep one of them.");
  const char* key = by_devices ? "devices" : "nodes";
  const auto sizes = whole_numbers(reader, key, 1, kMostDevices);
  const double cap = memory_cap_of(reader);
  study.terms.spare_nodes = reader.integer("spare_nodes", 0);
  if (study.terms.spare_nodes < 0 || study.terms.spare_nodes > kMostDevices)
    reader.fail("spare_nodes", fmt::format("{} is out of range", study.terms.spare_nodes), "they are nodes that wait for failures",
                "give for example 2, or leave it out.");
  for (const auto& spec : specs) {
    located(reader, "preset", [&] {
      const SourcedCluster one = read_cluster(spec, 1);
      take_precision(reader, study, one.precision);
      for (const std::int64_t size : sizes) {
        Cluster cluster = one.cluster;
        cluster.devices = by_devices ? size : size * cluster.fabric.node_devices;
        cluster.memory_cap = std::min(cluster.memory_cap, cap);
        study.clusters.push_back(std::move(cluster));
      }
    });
  }
}

// ------------------------------------------------------------------------------------ [window] and [batch]

void read_window(TomlReader reader, Study& study) {
  only(reader, {"days", "goodput", "stopped_days"});
  for (const double days : reader.numbers("days")) {
    constexpr double kMostDays = 36525;  // a century
    if (days <= 0 || days > kMostDays)
      reader.fail("days", fmt::format("{} is out of range", days), "a window is longer than nothing and shorter than a century",
                  "give for example 20.");
    if (std::find(study.days.begin(), study.days.end(), days) == study.days.end()) study.days.push_back(days);
  }
  if (study.days.empty()) reader.fail("days", "empty list", "a study needs a window", "give for example days = [20].");
  std::sort(study.days.begin(), study.days.end());
  study.terms.stopped_days = reader.number("stopped_days", 0);
  if (study.terms.stopped_days < 0 || study.terms.stopped_days >= study.days.front())
    reader.fail("stopped_days", fmt::format("{:g} is out of range", study.terms.stopped_days),
                fmt::format("planned stops lie within each window, and the shortest has {:g} days", study.days.front()),
                "give less, or leave the window out.");
  if (reader.has("goodput")) {
    const std::string spec = reader.is_text("goodput") ? reader.text("goodput") : fmt::format("{}", reader.number("goodput"));
    study.goodput = located(reader, "goodput", [&] { return read_goodput(spec); });
  }
}

void read_batch(TomlReader reader, Study& study) {
  only(reader, {"global", "sequence"});
  study.batches = whole_numbers(reader, "global", 1, kMostBatch);
  study.sequence = reader.integer("sequence");
  constexpr std::int64_t kMostSequence = 1'000'000'000;
  if (study.sequence < 1 || study.sequence > kMostSequence)
    reader.fail("sequence", fmt::format("{} is out of range", study.sequence), "a sequence has 1 to 10^9 tokens", "give for example 4096.");
}

// ------------------------------------------------------------------------------------------------- [plan]

bool takes_all(TomlReader& reader, const std::string& axis) {
  if (!reader.has(axis)) return true;
  return reader.is_text(axis) && reader.text(axis) == "all";
}

void read_integer_axis(TomlReader& reader, const std::string& name, Axis<int>& axis) {
  if (takes_all(reader, name)) return;
  if (reader.is_text(name))
    reader.fail(name, "wrong type", "numbers or \"all\" are needed", fmt::format("write {} = [1, 2] or {} = \"all\".", name, name));
  const std::int64_t low = name == "zero" ? 0 : 1, high = name == "zero" ? 3 : kMostDegree;
  axis.values.emplace();
  for (const std::int64_t value : whole_numbers(reader, name, low, high)) axis.values->push_back(static_cast<int>(value));
}

template <class T>
struct Words {
  std::optional<T> (*from)(std::string_view);
  std::vector<std::string> all;
};
const Words<Recompute> kRecomputes{recompute_from, {"none", "selective", "super-selective", "full"}};
const Words<Schedule> kSchedules{schedule_from, {"1f1b", "interleaved", "zb-h1", "dualpipe"}};
const Words<Precision> kPrecisions{precision_from, {"bf16", "fp8", "mxfp8", "nvfp4"}};

template <class T>
T word(TomlReader& reader, const std::string& key, const std::string& text, const Words<T>& words) {
  const std::optional<T> value = words.from(text);
  if (!value) reader.fail(key, fmt::format("unknown value '{}'", text), "it is no word of this axis", suggestion(text, words.all));
  return *value;
}

template <class T>
void read_word_axis(TomlReader& reader, const std::string& name, const Words<T>& words, Axis<T>& axis) {
  if (takes_all(reader, name)) return;
  axis.values.emplace();
  for (const auto& text : reader.texts(name)) axis.values->push_back(word(reader, name, text, words));
  if (axis.values->empty()) reader.fail(name, "empty list", "at least one value is needed", "give a value or \"all\".");
}

Axis<int>& integer_axis_of(PlanAxes& plan, const std::string& name) {
  if (name == "tp") return plan.tp;
  if (name == "cp") return plan.cp;
  if (name == "pp") return plan.pp;
  if (name == "ep") return plan.ep;
  if (name == "etp") return plan.etp;
  if (name == "virtual_stages") return plan.virtual_stages;
  if (name == "micro_batch") return plan.micro_batch;
  return plan.zero;
}

void read_forbidden(TomlReader& reader, PlanAxes& plan) {
  if (!reader.has("forbid")) return;
  for (const auto& text : reader.texts("forbid")) {
    const auto [axis, values] = located(reader, "forbid", [&] { return parse_axis_setting(text, "forbid"); });
    for (const auto& value : values) {
      if (axis == "recompute") plan.recompute.forbidden.push_back(word(reader, "forbid", value, kRecomputes));
      else if (axis == "schedule") plan.schedule.forbidden.push_back(word(reader, "forbid", value, kSchedules));
      else if (axis == "precision") plan.precision.forbidden.push_back(word(reader, "forbid", value, kPrecisions));
      else {
        const std::int64_t number = located(reader, "forbid", [&] { return parse_whole(value, "forbid " + axis); });
        if (number < 0 || number > kMostDegree)
          reader.fail("forbid", fmt::format("{} is out of range", number), "an axis has small non-negative values", "change it.");
        integer_axis_of(plan, axis).forbidden.push_back(static_cast<int>(number));
      }
    }
  }
}

void read_plan(TomlReader reader, Study& study) {
  PlanAxes& plan = study.plan;
  for (const auto& name : axis_names())
    if (integer_axis(name)) read_integer_axis(reader, name, integer_axis_of(plan, name));
  read_word_axis(reader, "recompute", kRecomputes, plan.recompute);
  read_word_axis(reader, "schedule", kSchedules, plan.schedule);
  if (reader.has("precision") && plan.precision.values)
    reader.fail("precision", "given twice", "the cluster's preset says precision= as well", "keep one of them.");
  // Left out it is bf16: a narrower format would always win, since no law prices what it costs in quality.
  if (!reader.has("precision") && !plan.precision.values) plan.precision.values = std::vector<Precision>{Precision::bf16};
  read_word_axis(reader, "precision", kPrecisions, plan.precision);
  if (reader.has("folding"))
    for (auto& cluster : study.clusters) cluster.stack.folding = reader.flag("folding", true);
  const std::string optimizer = reader.text("optimizer", "adam");
  const auto known = optimizer_from(optimizer);
  if (!known) reader.fail("optimizer", "unknown optimizer '" + optimizer + "'", "it is not known", suggestion(optimizer, {"adam", "muon", "scion"}));
  plan.optimizer = *known;
  read_forbidden(reader, plan);
  reader.finish();
}

// -------------------------------------------------------------------------------------- [law] and [output]

void read_bounds(TomlReader& reader, Study& study) {
  constexpr const char* key = "tokens_per_active_parameter";
  if (!reader.has(key)) return;
  const auto bounds = reader.numbers(key);
  if (bounds.size() != 2 || bounds[0] < 0 || bounds[1] <= bounds[0])
    reader.fail(key, "not a range", "two numbers are needed, the lower one first", "write for example [40, 150].");
  study.token_bounds.low = bounds[0];
  study.token_bounds.high = bounds[1];
}

void read_law_part(TomlReader reader, Study& study) {
  const std::string spec = reader.text("name", "mosaic");
  study.law = located(reader, "name", [&] { return read_law(spec); });
  if (!predicts_loss(study.law))
    reader.fail("name", "'" + spec + "' predicts no loss", "it is a multiplier of compute", "choose another law: tessera presets lists them.");
  read_bounds(reader, study);
  if (reader.has("critical_batch")) {
    const std::string name = reader.text("critical_batch");
    study.token_value.critical_batch = located(reader, "critical_batch", [&] { return read_critical_batch(name); });
    study.token_value.critical_scale = reader.number("critical_batch_scale", 1);
    if (study.token_value.critical_scale <= 0)
      reader.fail("critical_batch_scale", "out of range", "a factor is positive", "give for example 1.");
  }
  if (reader.has("unique_tokens")) {
    study.token_value.repetition = read_repetition();
    study.token_value.unique_tokens = reader.number("unique_tokens");
    if (study.token_value.unique_tokens <= 0) reader.fail("unique_tokens", "out of range", "data are more than nothing", "give for example 15e12.");
  }
  reader.finish();
}

void read_output(TomlReader reader, Study& study) {
  study.top = reader.integer("top", study.top);
  constexpr std::int64_t kMostTop = 1'000'000;
  if (study.top < 1 || study.top > kMostTop)
    reader.fail("top", fmt::format("{} is out of range", study.top), "1 to 1,000,000 rows are kept", "give for example 100.");
  const std::string record = reader.text("record", std::string(to_string(study.record)));
  if (const auto known = record_from(record)) study.record = *known;
  else reader.fail("record", "unknown value '" + record + "'", "it is no record mode", suggestion(record, {"all", "feasible", "best"}));
  const std::string search = reader.text("search", std::string(to_string(study.search)));
  if (const auto known = search_from(search)) study.search = *known;
  else reader.fail("search", "unknown value '" + search + "'", "it is no way to search", suggestion(search, {"exhaustive", "pruned"}));
  reader.finish();
}

TomlReader section(TomlReader& root, const char* name, const toml::table& empty, const std::string& file) {
  return root.has(name) ? root.table(name) : TomlReader(empty, file, name);
}

Study read_table(const toml::table& table, const std::string& name) {
  const toml::table empty;
  TomlReader root(table, name);
  Study study;
  only(root, {"title", "cluster", "window", "batch", "architecture", "plan", "law", "serving", "output"});
  study.title = root.text("title", "");
  read_clusters(root.table("cluster"), study);
  read_window(root.table("window"), study);
  read_batch(root.table("batch"), study);
  if (root.is_list("architecture")) {
    for (auto& part : root.tables("architecture")) read_architectures(part, study);
  } else {
    TomlReader part = root.table("architecture");
    read_architectures(part, study);
  }
  read_plan(section(root, "plan", empty, name), study);
  read_law_part(section(root, "law", empty, name), study);
  study.terms.serving = read_serving(section(root, "serving", empty, name));
  read_output(section(root, "output", empty, name), study);
  for (const auto& preset : used_presets(study)) study.presets.push_back(preset_entry(preset));
  return study;
}

}  // namespace

Study read_study_text(std::string_view text, const std::string& name, const StudyOverrides& overrides) {
  toml::table table = parse_toml_text(text, name);
  apply_overrides(table, overrides);
  Study study = read_table(table, name);
  study.source = study_source(text, overrides);
  check(study);
  return study;
}

Study read_study(const std::string& path, const StudyOverrides& overrides) {
  return read_study_text(read_text_file(path, "a study file (TOML)"), path, overrides);
}

Study restore_study(const std::string& source, const std::string& name) {
  const auto [text, overrides] = split_source(source);
  return read_study_text(text, name, overrides);
}

std::vector<std::pair<std::string, std::string>> study_fields(const std::string& source, const std::string& name) {
  const auto [text, overrides] = split_source(source);
  toml::table table = parse_toml_text(text, name);
  apply_overrides(table, overrides);
  return flat_fields(table);
}

std::string study_hash(const Study& study) {
  std::uint64_t hash = text_hash("");
  for (const auto& [key, value] : study_fields(study.source, "study")) hash = text_hash(key + "=" + value + "\n", hash);
  for (const auto& preset : study.presets) hash = text_hash(preset + "\n", hash);
  return hash_text(hash);
}

}  // namespace tessera
