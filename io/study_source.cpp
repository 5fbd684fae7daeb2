#include "io/study_source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::string_view kMark = "#: --";
constexpr std::string_view kRule = "#: changed on the command line";

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

template <class T>
T parse_value(const std::string& text, const std::string& option) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = error == std::errc() && end == text.data() + text.size();
  if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
  if (!good) throw InputError(option + ": '" + text + "' is not a number", "numbers are needed", "write for example 16 or 16,32.");
  return value;
}

template <class T>
std::vector<T> parse_list(const std::string& text, const std::string& option) {
  std::vector<T> out;
  for (const auto& item : split_commas(text)) out.push_back(parse_value<T>(item, option));
  return out;
}

toml::table& section(toml::table& root, std::string_view name) {
  if (!root.contains(name)) root.insert(name, toml::table{});
  auto* table = root[name].as_table();
  if (!table)
    throw InputError(fmt::format("{} is not a table", name), "a command-line option changes a key in it",
                     fmt::format("write [{}] in the study file.", name));
  return *table;
}

template <class T>
void set_list(toml::table& table, std::string_view key, const std::vector<T>& values) {
  toml::array list;
  for (const auto& value : values) list.push_back(value);
  table.insert_or_assign(key, std::move(list));
}

std::string value_text(const toml::node& node) {
  if (const auto* list = node.as_array()) {
    if (list->size() == 1) return value_text(*list->get(0));
    std::vector<std::string> items;
    for (const auto& item : *list) items.push_back(value_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (const auto text = node.as_string()) return fmt::format("\"{}\"", text->get());
  if (const auto flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto number = node.as_floating_point()) {
    const double value = number->get();
    constexpr double kExact = 9e15;  // whole numbers below it are exact in a double
    if (value == std::floor(value) && std::abs(value) < kExact) return fmt::format("{}", static_cast<std::int64_t>(value));
    return fmt::format("{}", value);
  }
  return "?";
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, name, out);
    } else if (node.is_array_of_tables()) {
      std::size_t index = 0;
      for (const auto& item : *node.as_array()) flatten(*item.as_table(), fmt::format("{}[{}]", name, index++), out);
    } else {
      out.emplace_back(name, value_text(node));
    }
  }
}

}  // namespace

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> names{"tp",          "cp",        "pp",   "ep",       "etp",      "virtual_stages",
                                              "micro_batch", "recompute", "zero", "schedule", "precision"};
  return names;
}

bool integer_axis(std::string_view axis) { return axis != "recompute" && axis != "schedule" && axis != "precision"; }

std::pair<std::string, std::vector<std::string>> parse_axis_setting(const std::string& text, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw InputError(option + ": '" + text + "' is not AXIS=VALUE", "an axis of the plan and its values are needed",
                     "write for example tp=8 or schedule=1f1b,interleaved.");
  std::string axis = text.substr(0, equals);
  if (std::find(axis_names().begin(), axis_names().end(), axis) == axis_names().end())
    throw InputError(option + ": unknown axis '" + axis + "'", "it is no axis of the plan", suggestion(axis, axis_names()));
  return {axis, split_commas(text.substr(equals + 1))};
}

std::string study_source(std::string_view text, const StudyOverrides& o) {
  std::string out(text);
  if (o == StudyOverrides{}) return out;
  if (!out.empty() && out.back() != '\n') out += '\n';
  out += fmt::format("{}\n", kRule);
  auto line = [&](std::string_view option, const std::string& value) { out += fmt::format("{}{} {}\n", kMark, option, value); };
  for (const auto& fix : o.fix) line("fix", fix);
  for (const auto& forbid : o.forbid) line("forbid", forbid);
  if (!o.nodes.empty()) line("nodes", fmt::format("{}", fmt::join(o.nodes, ",")));
  if (!o.devices.empty()) line("devices", fmt::format("{}", fmt::join(o.devices, ",")));
  if (!o.days.empty()) line("days", fmt::format("{}", fmt::join(o.days, ",")));
  if (o.top) line("top", std::to_string(*o.top));
  if (o.record) line("record", std::string(to_string(*o.record)));
  if (o.search) line("search", std::string(to_string(*o.search)));
  return out;
}

std::pair<std::string, StudyOverrides> split_source(const std::string& source) {
  const std::size_t at = source.rfind(kRule);
  StudyOverrides o;
  if (at == std::string::npos) return {source, o};
  std::string_view rest = std::string_view(source).substr(at);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.substr(0, kMark.size()) != kMark) continue;
    line.remove_prefix(kMark.size());
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string option(line.substr(0, space)), value(line.substr(space + 1));
    if (option == "fix") o.fix.push_back(value);
    else if (option == "forbid") o.forbid.push_back(value);
    else if (option == "nodes") o.nodes = parse_list<std::int64_t>(value, "--nodes");
    else if (option == "devices") o.devices = parse_list<std::int64_t>(value, "--devices");
    else if (option == "days") o.days = parse_list<double>(value, "--days");
    else if (option == "top") o.top = parse_value<std::int64_t>(value, "--top");
    else if (option == "record") o.record = record_from(value);
    else if (option == "search") o.search = search_from(value);
  }
  return {source.substr(0, at), o};
}

void apply_overrides(toml::table& root, const StudyOverrides& o) {
  if (!o.nodes.empty() && !o.devices.empty())
    throw InputError("--nodes and --devices", "they say the same thing twice", "give one of them.");
  for (const auto& text : o.fix) {
    const auto [axis, values] = parse_axis_setting(text, "--fix");
    if (!integer_axis(axis)) set_list(section(root, "plan"), axis, values);
    else set_list(section(root, "plan"), axis, parse_list<std::int64_t>(fmt::format("{}", fmt::join(values, ",")), "--fix " + text));
  }
  if (!o.forbid.empty()) {
    toml::table& plan = section(root, "plan");
    toml::array list;
    if (const auto* old = plan["forbid"].as_array()) list = *old;
    else if (const auto* one = plan["forbid"].as_string()) list.push_back(one->get());
    for (const auto& text : o.forbid) list.push_back(text);
    plan.insert_or_assign("forbid", std::move(list));
  }
  if (!o.nodes.empty()) {
    section(root, "cluster").erase("devices");
    set_list(section(root, "cluster"), "nodes", o.nodes);
  }
  if (!o.devices.empty()) {
    section(root, "cluster").erase("nodes");
    set_list(section(root, "cluster"), "devices", o.devices);
  }
  if (!o.days.empty()) set_list(section(root, "window"), "days", o.days);
  if (o.top) section(root, "output").insert_or_assign("top", *o.top);
  if (o.record) section(root, "output").insert_or_assign("record", std::string(to_string(*o.record)));
  if (o.search) section(root, "output").insert_or_assign("search", std::string(to_string(*o.search)));
}

std::vector<std::pair<std::string, std::string>> flat_fields(const toml::table& table) {
  std::vector<std::pair<std::string, std::string>> out;
  flatten(table, "", out);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tessera
