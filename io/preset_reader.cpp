#include "io/preset_reader.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>

#include <fmt/format.h>

#include "model/constants.hpp"
#include "io/preset_name.hpp"
#include "model/embedded_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int kDeepest = 8;  // levels of `extends`

std::string key_prefix(const std::string& prefix, std::string_view key) { return prefix + "." + std::string(key); }

Generation generation_from(TomlReader& r, const std::string& word) {
  if (word == "ampere") return Generation::ampere;
  if (word == "hopper") return Generation::hopper;
  if (word == "blackwell") return Generation::blackwell;
  r.fail("generation", "unknown generation '" + word + "'", "it chooses the attention kernels",
         suggestion(word, {"ampere", "hopper", "blackwell"}));
}

template <class T>
void read_constants(TomlReader& r, T& value, std::span<const ConstantField<T>> fields, const std::string& kind,
                    const std::string& preset, const std::string& prefix, ConstantSources* sources) {
  for (const auto& field : fields) {
    if (!r.has(field.key)) continue;
    Constant c = read_constant(r, field.key, field.unit);
    c.kind = kind;
    c.preset = preset;
    if (c.value < 0) r.fail(field.key, "negative value", "a " + std::string(field.meaning) + " cannot be negative", "give a positive number.");
    value.*field.member = c.value;
    if (sources) (*sources)[key_prefix(prefix, field.key)] = c;
  }
}

Tile tile_from(TomlReader& r, std::string_view key, const std::string& text) {
  static const std::regex form("([1-9][0-9]{0,4})x([1-9][0-9]{0,4})");
  std::smatch m;
  if (!std::regex_match(text, m, form)) r.fail(key, "'" + text + "' is no tile", "a tile is rows x columns in elements", "write for example \"128x256\".");
  return {std::stod(m[1]), std::stod(m[2])};
}

void read_special(TomlReader& r, Device& d) {
  if (r.has("generation")) d.generation = generation_from(r, r.text("generation"));
  if (r.has("gemm_tiles")) {
    d.gemm_tiles.clear();
    for (const auto& text : r.texts("gemm_tiles")) d.gemm_tiles.push_back(tile_from(r, "gemm_tiles", text));
  }
  if (r.has("grouped_tile")) d.grouped_tile = tile_from(r, "grouped_tile", r.text("grouped_tile"));
}

void read_special(TomlReader& r, FabricLevel&) { (void)r; }

void read_special(TomlReader& r, Stack& s) {
  for (const auto& flag : stack_flags())
    if (r.has(flag.key)) s.*flag.member = r.flag(flag.key, false);
  if (r.has("schedules")) {
    s.schedules.clear();
    for (const auto& word : r.texts("schedules")) {
      const auto schedule = schedule_from(word);
      if (!schedule) r.fail("schedules", "unknown schedule '" + word + "'", "schedules are words", suggestion(word, {"1f1b", "interleaved", "zb-h1", "dualpipe"}));
      s.schedules.push_back(*schedule);
    }
  }
  if (r.has("default_zero")) s.default_zero = static_cast<int>(r.integer("default_zero"));
  if (r.has("graph")) {
    const std::string word = r.text("graph");
    if (word == "none") s.graph = GraphMode::none;
    else if (word == "partial") s.graph = GraphMode::partial;
    else if (word == "full") s.graph = GraphMode::full;
    else r.fail("graph", "unknown graph mode '" + word + "'", "it says how much of a step is captured", suggestion(word, {"none", "partial", "full"}));
  }
  if (r.has("dispatcher")) {
    const std::string word = r.text("dispatcher");
    if (word == "all-to-all") s.dispatcher = Dispatcher::all_to_all;
    else if (word == "deduplicated") s.dispatcher = Dispatcher::deduplicated;
    else r.fail("dispatcher", "unknown dispatcher '" + word + "'", "it says how tokens reach experts", suggestion(word, {"all-to-all", "deduplicated"}));
  }
}

std::span<const ConstantField<Device>> fields_of(const Device&) { return device_constants(); }
std::span<const ConstantField<FabricLevel>> fields_of(const FabricLevel&) { return level_constants(); }
std::span<const ConstantField<Stack>> fields_of(const Stack&) { return stack_constants(); }

std::string root_of(const Stack&) { return "base"; }
template <class T>
std::string root_of(const T&) { return ""; }

// Backward attention rates default to the forward ones.
void default_backward(Stack& s, const ConstantSources* sources, const std::string& prefix) {
  auto given = [&](const char* key) { return sources && sources->count(key_prefix(prefix, key)); };
  if (!given("attention_backward_ampere")) s.attention_backward_ampere = s.attention_ampere;
  if (!given("attention_backward_hopper")) s.attention_backward_hopper = s.attention_hopper;
  if (!given("attention_backward_blackwell")) s.attention_backward_blackwell = s.attention_blackwell;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

double number_of(const std::string& text, const std::string& where) {
  try {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size() && std::isfinite(value) && value >= 0) return value;
  } catch (const std::exception&) {
  }
  throw InputError(where + ": '" + text + "' is not a number", "a plain non-negative number is needed", "write for example key=0.5.");
}

bool flag_of(const std::string& text, const std::string& where) {
  if (text == "true" || text == "on" || text == "1") return true;
  if (text == "false" || text == "off" || text == "0") return false;
  throw InputError(where + ": '" + text + "' is not a flag", "true or false is needed", "write true or false.");
}

}  // namespace

Constant read_constant(TomlReader& r, std::string_view key, std::string_view unit) {
  Constant c;
  c.key = std::string(key);
  c.unit = std::string(unit);
  if (!r.is_table(key)) {
    c.value = r.number(key);
    return c;
  }
  TomlReader t = r.table(key);
  c.value = t.number("value");
  const std::string given = t.text("unit", c.unit);
  if (given != c.unit) t.fail("unit", "wrong unit '" + given + "'", "this constant is in " + c.unit, "convert it.");
  c.source = t.text("source", "");
  c.low = t.number("low", 0);
  c.high = t.number("high", 0);
  c.fitted = t.flag("fitted", false);
  if (t.has("prior")) {
    const auto prior = t.numbers("prior");
    if (prior.size() != 2 || prior[0] <= 0 || prior[1] < 0)
      t.fail("prior", "not a prior", "a positive centre and a relative width are needed", "write prior = [0.7, 0.2].");
    c.prior_centre = prior[0];
    c.prior_width = prior[1];
  }
  t.finish();
  return c;
}

Presets::Presets(std::string folder) : folder_(std::move(folder)) {}

std::vector<std::string> Presets::names(const std::string& kind) const {
  std::vector<std::string> out;
  for (const auto& p : embedded_presets())
    if (p.kind == kind) out.emplace_back(p.name);
  return out;
}

std::string Presets::text(const std::string& kind, const std::string& name) const {
  for (const auto& p : embedded_presets())
    if (p.kind == kind && p.name == name) return std::string(p.text);
  std::string remedy = suggestion(name, names(kind));
  if (const std::string device = kind == "fabrics" ? spelled_name(name, names("devices")) : ""; !device.empty()) {
    std::vector<std::string> with;
    for (const auto& p : embedded_presets())
      if (p.kind == "fabrics" && toml::parse(p.text)["device"].value_or(std::string()) == device) with.push_back(fmt::format("'{}'", p.name));
    remedy = with.empty() ? fmt::format("it is a device: name a fabric and the device, e.g. generic,device={}.", device)
                          : fmt::format("it is a device; fabrics with it are {}.", fmt::join(with, ", "));
  }
  throw InputError(fmt::format("unknown {} '{}'", kind.substr(0, kind.size() - 1), name), "no preset has this name", remedy);
}

Presets::Source Presets::load(const std::string& kind, const std::string& spec) const {
  namespace fs = std::filesystem;
  const bool path = spec.size() > 5 && spec.ends_with(".toml");
  if (path) return {parse_toml_file(spec), spec};
  if (!folder_.empty()) {
    const std::string file = folder_ + "/" + kind + "/" + spec + ".toml";
    if (fs::exists(file)) return {parse_toml_file(file), file};
  }
  return {parse_toml_text(text(kind, spec), "preset " + kind + "/" + spec), "preset " + kind + "/" + spec};
}

namespace {

// The preset that a specification spells; a file of the user's folder goes before it.
std::string meant(const std::string& spec, const std::vector<std::string>& names, const std::string& folder) {
  if (!folder.empty()) return spec;
  const std::string spelled = spelled_name(spec, names);
  return spelled.empty() ? spec : spelled;
}

}  // namespace

template <class T>
void Presets::read_into(T& value, const std::string& kind, const std::string& spec, const std::string& prefix,
                        ConstantSources* sources, int depth) const {
  const Source source = load(kind, spec);
  TomlReader r(source.table, source.file);
  if (depth > kDeepest) r.fail("extends", "too many levels", "presets extend each other in a circle or too deeply", "shorten the chain.");
  const std::string root = root_of(value);  // what a preset extends that says nothing
  if (r.has("extends")) read_into(value, kind, r.text("extends"), prefix, sources, depth + 1);
  else if (!root.empty() && spec != root) read_into(value, kind, root, prefix, sources, depth + 1);
  value.name = spec;
  r.accept("title");
  r.accept("source");
  r.accept("calibrated_by");
  read_special(r, value);
  read_constants(r, value, fields_of(value), kind, spec, prefix, sources);
  r.finish();
}

Device Presets::device(const std::string& word, ConstantSources* sources) const {
  const std::string spec = meant(word, names("devices"), folder_);
  Device d;
  read_into(d, "devices", spec, "device", sources, 0);
  for (const auto& field : device_constants())
    if (field.required && !(d.*field.member > 0))
      throw InputError(fmt::format("device '{}': missing '{}'", spec, field.key), std::string(field.meaning) + " is needed",
                       fmt::format("add '{} = ...' in {}.", field.key, field.unit));
  if (d.gemm_tiles.empty() || d.grouped_tile.rows <= 0)
    throw InputError(fmt::format("device '{}': missing '{}'", spec, d.gemm_tiles.empty() ? "gemm_tiles" : "grouped_tile"),
                     "GEMM times are of whole tiles", "add 'extends = \"nvidia-base\"', or the tiles as there.");
  return d;
}

Stack Presets::stack(const std::string& word, ConstantSources* sources) const {
  const std::string spec = meant(word, names("stacks"), folder_);
  Stack s;
  ConstantSources own;
  read_into(s, "stacks", spec, "stack", &own, 0);
  default_backward(s, &own, "stack");
  if (sources) sources->insert(own.begin(), own.end());
  return s;
}

FabricLevel Presets::link(const std::string& spec, ConstantSources* sources) const {
  FabricLevel level;
  read_into(level, "links", spec, "link", sources, 0);
  return level;
}

Fabric Presets::fabric(const std::string& word, ConstantSources* sources) const {
  const std::string spec = meant(word, names("fabrics"), folder_);
  const Source source = load("fabrics", spec);
  TomlReader r(source.table, source.file);
  Fabric f;
  f.name = spec;
  r.accept("title");
  r.accept("source");
  f.node_devices = r.integer("node_devices", 8);
  if (f.node_devices < 1) r.fail("node_devices", "not positive", "a node holds at least one device", "write for example 8.");
  f.device = r.text("device", "");
  f.stack = r.text("stack", "");
  for (TomlReader& t : r.tables("level")) {
    FabricLevel level;
    const std::string prefix = fmt::format("level{}", f.levels.size());
    if (t.has("link")) read_into(level, "links", t.text("link"), prefix, sources, 0);
    level.name = t.text("name", level.name);
    read_constants(t, level, level_constants(), "fabrics", spec, prefix, sources);
    t.finish();
    if (!(level.bandwidth > 0)) t.fail("bandwidth", "missing", "a level needs a bandwidth or a link preset", "add bandwidth = ... in B/s.");
    f.levels.push_back(level);
  }
  r.finish();
  if (f.levels.empty()) r.fail("level", "missing", "a fabric has at least one level", "add [[level]] tables from the inside out.");
  for (std::size_t i = 0; i < f.levels.size(); ++i)
    if (f.levels[i].size <= 0) f.levels[i].size = std::numeric_limits<double>::infinity();
  return f;
}

SourcedCluster Presets::cluster(const std::string& device_spec, const std::string& fabric_spec, const std::string& stack_spec,
                                std::int64_t devices) const {
  SourcedCluster out;
  Cluster& c = out.cluster;
  c.fabric = fabric(fabric_spec, &out.sources);
  const std::string device_name = device_spec.empty() ? c.fabric.device : device_spec;
  const std::string stack_name = stack_spec.empty() ? c.fabric.stack : stack_spec;
  if (device_name.empty()) throw InputError("cluster '" + fabric_spec + "' names no device", "the fabric has no default device", "add device=NAME.");
  if (stack_name.empty()) throw InputError("cluster '" + fabric_spec + "' names no stack", "the fabric has no default stack", "add stack=NAME.");
  c.device = device(device_name, &out.sources);
  c.stack = stack(stack_name, &out.sources);
  c.name = fabric_spec;
  c.devices = devices > 0 ? devices : c.fabric.node_devices;
  c.memory_cap = c.device.capacity;
  return out;
}

namespace {

void change(SourcedCluster& out, const std::string& key, const std::string& text) {
  Cluster& c = out.cluster;
  const std::string where = "cluster: " + key;
  if (key == "precision") {
    out.precision = precision_from(text);
    if (!out.precision) throw InputError(where + ": unknown precision '" + text + "'", "formats are words", suggestion(text, {"bf16", "fp8", "mxfp8", "nvfp4"}));
    return;
  }
  if (key == "memory_cap") {
    c.memory_cap = parse_bytes(text, where);
    return;
  }
  if (key == "nic" || key == "nvlink") {
    if (text.empty() || text.back() != 'x') throw InputError(where + ": '" + text + "'", "a factor is needed", "write for example nic=2x.");
    const double factor = number_of(text.substr(0, text.size() - 1), where);
    if (factor <= 0) throw InputError(where + ": zero", "a link needs bandwidth", "write for example nic=2x.");
    for (std::size_t i = 0; i < c.fabric.levels.size(); ++i)
      if ((i > 0) == (key == "nic")) c.fabric.levels[i].bandwidth *= factor;
    return;
  }
  std::vector<std::string> known{"device", "stack", "precision", "memory_cap", "nic", "nvlink"};
  for (const auto& f : stack_constants()) {
    known.emplace_back(f.key);
    if (f.key == key) {
      c.stack.*f.member = number_of(text, where);
      return;
    }
  }
  for (const auto& f : stack_flags()) {
    known.emplace_back(f.key);
    if (f.key == key) {
      c.stack.*f.member = flag_of(text, where);
      return;
    }
  }
  for (const auto& f : device_constants()) {
    known.emplace_back(f.key);
    if (f.key == key) {
      const double value = number_of(text, where);
      if (f.required && value <= 0) throw InputError(where + ": zero", "it must be positive", "give a positive number.");
      c.device.*f.member = value;
      return;
    }
  }
  throw InputError(where + ": unknown key", "nothing reads it", suggestion(key, known));
}

}  // namespace

SourcedCluster Presets::cluster(const std::string& spec, std::int64_t devices) const {
  const auto parts = split(spec, ',');
  if (parts.front().empty()) throw InputError("the cluster is empty", "a fabric preset or file is needed", "write for example p6-b200.");
  std::string device_name, stack_name;
  std::vector<std::pair<std::string, std::string>> changes;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t at = parts[i].find('=');
    if (at == std::string::npos)
      throw InputError("cluster '" + spec + "': '" + parts[i] + "' has no value", "changes are key=value", "write for example stack=megatron-core-2026.");
    const std::string key = parts[i].substr(0, at), value = parts[i].substr(at + 1);
    if (key == "device") device_name = value;
    else if (key == "stack") stack_name = value;
    else changes.emplace_back(key, value);
  }
  SourcedCluster out = cluster(device_name, parts.front(), stack_name, devices);
  for (const auto& [key, value] : changes) change(out, key, value);
  for (const auto& [key, value] : changes)
    if (key == "capacity") out.cluster.memory_cap = out.cluster.device.capacity;
  out.cluster.name = spec;
  return out;
}

SourcedCluster read_cluster(const std::string& spec, std::int64_t devices) { return Presets().cluster(spec, devices); }

}  // namespace tessera
