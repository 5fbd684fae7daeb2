#include "io/budget_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "io/toml_reader.hpp"
#include "model/embedded_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

const EmbeddedPreset* find_preset(std::string_view kind, std::string_view name) {
  for (const auto& preset : embedded_presets())
    if (preset.kind == kind && preset.name == name) return &preset;
  return nullptr;
}

toml::table budget_table(const std::string& name) {
  const auto* preset = find_preset("budget", name);
  if (!preset) throw RunError("preset budget/" + name + " is missing from the program");
  return parse_toml_text(preset->text, "preset budget/" + name);
}

std::pair<double, double> interval(TomlReader& reader, std::string_view key) {
  const auto pair = reader.numbers(key);
  if (pair.size() != 2 || pair[0] > pair[1])
    reader.fail(key, "not an interval", "two numbers in order are needed", "write [low, high].");
  return {pair[0], pair[1]};
}

double positive(TomlReader& reader, std::string_view key, double fallback) {
  const double value = reader.number(key, fallback);
  if (value < 0) reader.fail(key, fmt::format("{:g} is negative", value), "it is a size", "give zero or more.");
  return value;
}

void check_share(TomlReader& reader, std::string_view key, double value, bool zero) {
  if (!(value > 0 || (zero && value == 0)) || value > 1 || (zero && value == 1))
    reader.fail(key, fmt::format("{:g} is no share of time", value),
                zero ? "0 <= share < 1 is needed" : "0 < goodput <= 1 is needed", "correct it.");
}

GoodputModel goodput_of(const toml::table& table, const std::string& file) {
  TomlReader reader(table, file);
  GoodputModel out;
  out.name = file;
  out.source = reader.text("source", "");
  out.evidence = reader.text("evidence", "");
  out.note = reader.text("note", "");
  if (reader.has("constant")) {
    out.constant = reader.number("constant");
    check_share(reader, "constant", out.constant, false);
    reader.finish();
    return out;
  }
  out.modelled = true;
  const double node_devices = reader.number("node_devices");
  if (!(node_devices > 0)) reader.fail("node_devices", "not positive", "failures are given per node", "give the devices of a node.");
  out.failures_per_device_day = positive(reader, "failures_per_node_day", 0) / node_devices;
  out.failures_per_job_day = positive(reader, "failures_per_job_day", 0);
  out.bytes_per_parameter = positive(reader, "bytes_per_parameter", 0);
  out.storage_write = positive(reader, "storage_write", 0);
  out.storage_read = positive(reader, "storage_read", 0);
  out.device_write = positive(reader, "device_write", 0);
  out.asynchronous = reader.flag("asynchronous", true);
  out.device_copy = positive(reader, "device_copy", 0);
  out.blocking_seconds = positive(reader, "blocking_seconds", 0);
  out.restart_seconds = positive(reader, "restart_seconds", 0);
  out.restart_can_fail = reader.flag("restart_can_fail", false);
  out.other_losses = reader.number("other_losses", 0);
  check_share(reader, "other_losses", out.other_losses, true);
  reader.finish();
  return out;
}

toml::table goodput_base(const std::string& name) {
  if (const auto* preset = find_preset("goodput", name)) return parse_toml_text(preset->text, "preset goodput/" + name);
  if (name.ends_with(".toml") || std::filesystem::exists(name)) return parse_toml_file(name);
  throw InputError(fmt::format("'{}' is no goodput", name), "neither a number in (0, 1], a preset nor a file",
                   suggestion(name, goodput_names()));
}

/// "key=value,..." after the name, as TOML lines laid over the table.
void overlay(toml::table& table, std::stringstream& parts, const std::string& spec) {
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.find('=') == std::string::npos)
      throw InputError(fmt::format("goodput '{}': '{}' changes nothing", spec, part), "a change is key=value",
                       "write for example blocking_seconds=60.");
    const toml::table change = parse_toml_text(part + "\n", "goodput '" + spec + "'");
    for (const auto& [key, value] : change) value.visit([&](const auto& node) { table.insert_or_assign(key.str(), node); });
  }
}

std::optional<double> whole_number(const std::string& word) {
  std::size_t used = 0;
  try {
    const double value = std::stod(word, &used);
    if (used == word.size()) return value;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

/// Key of a per-device table for a device name: equal, or the longest key the name starts with ("H100-500W" is
/// an H100), letters in any case.
std::string device_key(const std::vector<std::string>& keys, const std::string& device, const std::string& what) {
  auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  std::string best;
  for (const auto& key : keys)
    if (lower(device).starts_with(lower(key)) && key.size() > best.size()) best = key;
  if (best.empty())
    throw InputError(fmt::format("no {} is known for device '{}'", what, device),
                     fmt::format("known are {}", fmt::join(keys, ", ")), "give your own number.");
  return best;
}

}  // namespace

GoodputModel read_goodput(const std::string& spec) {
  if (const auto number = whole_number(spec)) {
    if (!(*number > 0 && *number <= 1))
      throw InputError(fmt::format("goodput {}", spec), "it is a share of the window, 0 < goodput <= 1", "give for example 0.95.");
    GoodputModel out;
    out.name = spec;
    out.constant = *number;
    return out;
  }
  std::stringstream parts(spec);
  std::string name = spec;
  if (!std::filesystem::exists(spec)) std::getline(parts, name, ',');
  toml::table table = goodput_base(name);
  if (name != spec) overlay(table, parts, spec);
  GoodputModel out = goodput_of(table, spec);
  return out;
}

std::vector<std::string> goodput_names() {
  std::vector<std::string> out;
  for (const auto& preset : embedded_presets())
    if (preset.kind == "goodput") out.emplace_back(preset.name);
  return out;
}

CriticalBatch read_critical_batch(const std::string& name) {
  if (name != "moe" && name != "dense")
    throw InputError(fmt::format("'{}' is no critical batch", name), "known are moe, dense", suggestion(name, {"moe", "dense"}));
  const toml::table table = budget_table("critical_batch_" + name);
  TomlReader reader(table, "preset budget/critical_batch_" + name);
  CriticalBatch out;
  out.name = name;
  out.source = reader.text("source");
  out.evidence = reader.text("evidence");
  out.note = reader.text("note");
  out.coefficient = reader.number("coefficient");
  out.exponent = reader.number("exponent");
  out.reference_coefficient = reader.number("reference_coefficient");
  out.reference_exponent = reader.number("reference_exponent");
  out.twenty_percent_coefficient = reader.number("twenty_percent_coefficient");
  out.twenty_percent_exponent = reader.number("twenty_percent_exponent");
  out.scale_low = reader.number("scale_low");
  out.scale_high = reader.number("scale_high");
  std::tie(out.tokens_low, out.tokens_high) = interval(reader, "tokens");
  reader.finish();
  return out;
}

Repetition read_repetition() {
  const toml::table table = budget_table("repetition");
  TomlReader reader(table, "preset budget/repetition");
  Repetition out;
  out.name = "muennighoff";
  out.source = reader.text("source");
  out.evidence = reader.text("evidence");
  out.note = reader.text("note");
  out.epochs = reader.number("epochs");
  out.note_epochs = reader.number("note_epochs");
  out.warn_epochs = reader.number("warn_epochs");
  out.text_stock = reader.number("text_stock");
  std::tie(out.text_stock_low, out.text_stock_high) = interval(reader, "text_stock_interval");
  reader.finish();
  return out;
}

OvertrainingFlags read_overtraining_flags() {
  const toml::table table = budget_table("overtraining");
  TomlReader reader(table, "preset budget/overtraining");
  OvertrainingFlags out;
  out.source = reader.text("source");
  out.evidence = reader.text("evidence");
  out.low = reader.number("low");
  out.extrapolated = reader.number("extrapolated");
  out.untested = reader.number("untested");
  reader.finish();
  return out;
}

ImbalanceModel read_imbalance(const std::string& balancing) {
  const std::vector<std::string> kinds{"forced", "loss-free", "auxiliary-loss", "none"};
  if (std::find(kinds.begin(), kinds.end(), balancing) == kinds.end())
    throw InputError(fmt::format("'{}' is no balancing", balancing), fmt::format("known are {}", fmt::join(kinds, ", ")),
                     suggestion(balancing, kinds));
  const toml::table table = budget_table("imbalance");
  TomlReader reader(table, "preset budget/imbalance");
  for (const auto& kind : kinds) reader.accept(kind);
  ImbalanceModel out;
  out.source = reader.text("source");
  out.evidence = reader.text("evidence");
  out.phi = reader.number("phi");
  out.spread = reader.number(balancing);
  reader.finish();
  return out;
}

PowerModel read_power(const std::string& device) {
  const toml::table table = budget_table("power");
  TomlReader reader(table, "preset budget/power");
  TomlReader watts = reader.table("watts"), evidence = reader.table("evidence");
  const std::string key = device_key(watts.keys(), device, "power");
  PowerModel out;
  out.name = key;
  out.source = reader.text("source");
  out.note = reader.text("note");
  out.evidence = evidence.text(key);
  out.node_watts_per_device = watts.number(key);
  out.load = reader.number("load");
  std::tie(out.load_low, out.load_high) = interval(reader, "load_range");
  out.pue = reader.number("pue");
  std::tie(out.pue_low, out.pue_high) = interval(reader, "pue_range");
  reader.finish();
  return out;
}

Price read_price(const std::string& device) {
  const toml::table table = budget_table("prices");
  TomlReader reader(table, "preset budget/prices");
  TomlReader price = reader.table("usd_per_device_hour"), spread = reader.table("spread"), evidence = reader.table("evidence");
  const std::string key = device_key(price.keys(), device, "price");
  Price out;
  out.name = key;
  out.source = reader.text("source");
  out.note = reader.text("note");
  out.date = reader.text("date");
  out.evidence = evidence.text(key);
  out.usd_per_device_hour = price.number(key);
  std::tie(out.low, out.high) = interval(spread, key);
  reader.finish();
  return out;
}

}  // namespace tessera
