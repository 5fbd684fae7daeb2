#include "io/used_presets.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/architecture_fields.hpp"
#include "io/hash.hpp"
#include "io/law_reader.hpp"
#include "io/serving_reader.hpp"
#include "model/constants.hpp"

namespace tessera {
namespace {

std::string number(double value) { return fmt::format("{}", value); }  // shortest text that reads back to the same double

template <class T>
void constants(std::string& out, const T& values, std::span<const ConstantField<T>> fields) {
  for (const auto& field : fields) out += fmt::format("{} = {}  # [{}] {}\n", field.key, number(values.*field.member), field.unit, field.meaning);
}

std::string goodput_text(const GoodputModel& g) {
  std::string out;
  auto line = [&](const char* key, double value, const char* unit) { out += fmt::format("{} = {}  # [{}]\n", key, number(value), unit); };
  line("constant", g.constant, "1");
  out += fmt::format("modelled = {}\n", g.modelled);
  line("failures_per_device_day", g.failures_per_device_day, "1/(device day)");
  line("failures_per_job_day", g.failures_per_job_day, "1/day");
  line("bytes_per_parameter", g.bytes_per_parameter, "B");
  line("storage_write", g.storage_write, "B/s");
  line("storage_read", g.storage_read, "B/s");
  line("device_write", g.device_write, "B/s");
  out += fmt::format("asynchronous = {}\n", g.asynchronous);
  line("device_copy", g.device_copy, "B/s");
  line("blocking_seconds", g.blocking_seconds, "s");
  line("restart_seconds", g.restart_seconds, "s");
  out += fmt::format("restart_can_fail = {}\n", g.restart_can_fail);
  line("other_losses", g.other_losses, "1");
  return out;
}

std::string tile_text(const Tile& t) { return fmt::format("{}x{}", t.rows, t.columns); }

constexpr const char* kGenerations[] = {"ampere", "hopper", "blackwell"};
constexpr const char* kGraphs[] = {"none", "partial", "full"};
constexpr const char* kDispatchers[] = {"all-to-all", "deduplicated"};

}  // namespace

std::string cluster_text(const Cluster& c) {
  std::string out = fmt::format("[device]\nname = \"{}\"\ngeneration = \"{}\"\n", c.device.name, kGenerations[static_cast<int>(c.device.generation)]);
  std::vector<std::string> tiles;
  for (const Tile& tile : c.device.gemm_tiles) tiles.push_back(fmt::format("\"{}\"", tile_text(tile)));
  out += fmt::format("gemm_tiles = [{}]  # [elements]\ngrouped_tile = \"{}\"  # [elements]\n", fmt::join(tiles, ", "), tile_text(c.device.grouped_tile));
  constants(out, c.device, device_constants());
  out += fmt::format("\n[fabric]\nname = \"{}\"\nnode_devices = {}\n", c.fabric.name, c.fabric.node_devices);
  for (const auto& level : c.fabric.levels) {
    out += fmt::format("\n[[fabric.levels]]\nname = \"{}\"\n", level.name);
    constants(out, level, level_constants());
  }
  std::vector<std::string> schedules;
  for (const Schedule schedule : c.stack.schedules) schedules.push_back(fmt::format("\"{}\"", to_string(schedule)));
  out += fmt::format("\n[stack]\nname = \"{}\"\nschedules = [{}]\ndefault_zero = {}\ngraph = \"{}\"\ndispatcher = \"{}\"\n", c.stack.name,
                     fmt::join(schedules, ", "), c.stack.default_zero, kGraphs[static_cast<int>(c.stack.graph)],
                     kDispatchers[static_cast<int>(c.stack.dispatcher)]);
  for (const auto& flag : stack_flags()) out += fmt::format("{} = {}  # {}\n", flag.key, c.stack.*flag.member, flag.meaning);
  constants(out, c.stack, stack_constants());
  return out;
}

std::vector<UsedPreset> used_presets(const Study& study) {
  std::vector<UsedPreset> out;
  for (const auto& cluster : study.clusters) {
    UsedPreset preset{"cluster", cluster.name, cluster_text(cluster)};
    const auto same = [&](const UsedPreset& other) { return other.name == preset.name && other.text == preset.text; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(preset));
  }
  out.push_back({"law", study.law.name, law_to_toml(study.law)});
  out.push_back({"goodput", study.goodput.name.empty() ? "constant" : study.goodput.name, goodput_text(study.goodput)});
  if (study.terms.serving.load.stated()) out.push_back({"serving", "formats", std::string(serving_formats_text())});
  for (const auto& architecture : study.architectures)
    if (architecture.rung == 0) out.push_back({"model", architecture.name, architecture_json(architecture).dump()});
  return out;
}

std::string preset_entry(const UsedPreset& preset) { return preset.kind + " " + preset.name + " " + hash_text(text_hash(preset.text)); }

}  // namespace tessera
