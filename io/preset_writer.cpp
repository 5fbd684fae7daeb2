#include "io/preset_writer.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string joined(const Lines& lines) {
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

/// Position behind the string that opens at `at` of a line (no multi-line strings: constants have none).
std::size_t skip_string(const std::string& line, std::size_t at) {
  const char quote = line[at];
  for (++at; at < line.size() && line[at] != quote; ++at)
    if (quote == '"' && line[at] == '\\') ++at;
  return std::min(at + 1, line.size());
}

/// What follows the value of a `key = value` line: blanks and a comment, or nothing.
std::string tail_of(const std::string& line) {
  std::size_t at = line.find('=');
  while (at < line.size() && line[at] != '#') at = line[at] == '"' || line[at] == '\'' ? skip_string(line, at) : at + 1;
  if (at >= line.size()) return "";
  while (at > 0 && (line[at - 1] == ' ' || line[at - 1] == '\t')) --at;
  return line.substr(at);
}

std::size_t line_of(const toml::node& node) { return static_cast<std::size_t>(node.source().begin.line) - 1; }

bool plain_key(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

void refuse(const std::string& what, const std::string& why, const std::string& remedy) { throw InputError("preset text: " + what, why, remedy); }

/// The level tables of a fabric, or none.
std::vector<const toml::table*> level_tables(const toml::table& root) {
  std::vector<const toml::table*> out;
  if (const toml::array* levels = root.get_as<toml::array>("level"))
    for (const auto& level : *levels)
      if (const toml::table* t = level.as_table()) out.push_back(t);
  return out;
}

struct Place {
  const toml::table* table = nullptr;
  std::string key;
};

Place place_of(const toml::table& root, const std::string& key) {
  const auto levels = level_tables(root);
  const std::size_t dot = key.find('.');
  if (dot != std::string::npos && key.starts_with("level")) {
    const std::string digits = key.substr(5, dot - 5);
    const bool number = !digits.empty() && digits.size() < 4 && std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!number || std::stoul(digits) >= levels.size())
      refuse("no table for '" + key + "'", fmt::format("it has {} [[level]] tables", levels.size()), "count them from 0, the innermost.");
    return {levels[std::stoul(digits)], key.substr(dot + 1)};
  }
  if (root.contains(key)) return {&root, key};
  std::vector<const toml::table*> with;
  for (const auto* level : levels)
    if (level->contains(key)) with.push_back(level);
  if (with.size() > 1) refuse("several tables have '" + key + "'", "it is not clear which is meant", "write level0." + key + " or level1." + key + ".");
  return {with.empty() ? &root : with.front(), key};
}

/// Line at which a key is appended: behind the last line of the table that is neither blank nor a comment.
std::size_t end_of_table(const Lines& lines, std::size_t first) {
  std::size_t end = first, at = first;
  for (; at < lines.size(); ++at) {
    const std::size_t begin = lines[at].find_first_not_of(" \t");
    if (begin == std::string::npos || lines[at][begin] == '#') continue;
    if (lines[at][begin] == '[') break;
    end = at + 1;
  }
  return end;
}

struct Insertion {
  std::size_t line;
  std::string text;
};

void check(const std::vector<Constant>& values) {
  std::set<std::string> seen;
  for (const Constant& c : values) {
    const std::string name = c.key.substr(c.key.find('.') == std::string::npos ? 0 : c.key.find('.') + 1);
    if (!plain_key(name)) refuse("bad key '" + c.key + "'", "keys are letters, digits, _ and -", "correct it.");
    if (!seen.insert(c.key).second) refuse("'" + c.key + "' is given twice", "a constant has one value", "drop one.");
    for (const double x : {c.value, c.low, c.high, c.prior_centre, c.prior_width})
      if (!std::isfinite(x)) refuse("'" + c.key + "' is not finite", "a preset holds finite numbers", "see why the fit failed.");
  }
}

void set_command_line(Lines& lines, const toml::table& root, const std::string& command_line, std::vector<Insertion>& insertions) {
  const std::string text = "calibrated_by = " + toml_string(command_line);
  if (const toml::node* old = root.get("calibrated_by")) {
    lines[line_of(*old)] = text + tail_of(lines[line_of(*old)]);
    return;
  }
  const toml::node* title = root.get("title");
  insertions.push_back({title ? line_of(*title) + 1 : 0, text});
}

}  // namespace

std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += std::string("\\") + c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (byte < 0x20 || byte == 0x7f) out += fmt::format("\\u{:04X}", byte);
    else out += c;
  }
  return out + "\"";
}

std::string constant_text(const Constant& c) {
  std::string out = fmt::format("{{ value = {:.6g}", c.value);
  if (!c.unit.empty()) out += ", unit = " + toml_string(c.unit);
  if (!c.source.empty()) out += ", source = " + toml_string(c.source);
  if (c.prior_width > 0) out += fmt::format(", prior = [{:.6g}, {:.6g}]", c.prior_centre, c.prior_width);
  if (c.low != 0 || c.high != 0) out += fmt::format(", low = {:.6g}, high = {:.6g}", c.low, c.high);
  if (c.fitted) out += ", fitted = true";
  return out + " }";
}

std::string rewrite_constants(const std::string& preset_text, const std::vector<Constant>& values, const std::string& command_line) {
  check(values);
  const toml::table root = parse_toml_text(preset_text, "preset text");
  Lines lines = lines_of(preset_text);
  std::vector<Insertion> insertions;
  set_command_line(lines, root, command_line, insertions);
  for (const Constant& c : values) {
    const Place place = place_of(root, c.key);
    const std::string text = place.key + " = " + constant_text(c);
    if (const toml::node* old = place.table->get(place.key)) {
      const std::size_t at = line_of(*old);
      const std::size_t indent = lines[at].find_first_not_of(" \t");
      lines[at] = lines[at].substr(0, indent) + text + tail_of(lines[at]);
    } else {
      insertions.push_back({end_of_table(lines, place.table == &root ? 0 : line_of(*place.table) + 1), text});
    }
  }
  std::stable_sort(insertions.begin(), insertions.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  for (std::size_t i = 0; i < insertions.size(); ++i)
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(insertions[i].line + i), insertions[i].text);
  return joined(lines);
}

}  // namespace tessera
