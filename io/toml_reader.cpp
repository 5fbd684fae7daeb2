#include "io/toml_reader.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return fmt::format("known are: {}.", fmt::join(candidates, ", "));
}

toml::table parse_toml_text(std::string_view text, const std::string& name) {
  if (text.find('\0') != std::string_view::npos)
    throw InputError(name + " is not a text file", "it has zero bytes", "give a TOML file.");
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}:{}: not valid TOML", name, error.source().begin.line, error.source().begin.column),
                     std::string(error.description()), "mend that line.");
  }
}

toml::table parse_toml_file(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw InputError("cannot read " + path, "there is no such file", "check the path.");
  if (std::filesystem::is_directory(path, code))
    throw InputError("cannot read " + path, "it is a folder", "give a TOML file.");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError("cannot read " + path, "it cannot be opened", "check its permissions.");
  std::ostringstream all;
  all << stream.rdbuf();
  const std::string text = all.str();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(path + " is empty", "a TOML file with keys is needed", "see the examples under jobs/.");
  return parse_toml_text(text, path);
}

TomlReader::TomlReader(const toml::table& table, std::string file, std::string path)
    : table_(&table), file_(std::move(file)), path_(std::move(path)) {}

std::string TomlReader::where(std::string_view key) const {
  const toml::node* node = key.empty() ? nullptr : table_->get(key);
  const auto line = node ? node->source().begin.line : table_->source().begin.line;
  std::string name = path_;
  if (!key.empty()) name += (name.empty() ? "" : ".") + std::string(key);
  if (line > 0) return fmt::format("{}:{}: {}", file_, line, name);
  return fmt::format("{}: {}", file_, name);
}

void TomlReader::fail(std::string_view key, const std::string& problem, const std::string& why,
                      const std::string& remedy) const {
  throw InputError(where(key) + ": " + problem, why, remedy);
}

void TomlReader::fail(std::string_view key, const InputError& inner) const { throw InputError(where(key), inner); }

const toml::node* TomlReader::find(std::string_view key) {
  known_.insert(std::string(key));
  return table_->get(key);
}

const toml::node& TomlReader::need(std::string_view key) {
  const toml::node* node = find(key);
  if (!node) fail(key, "missing key", "it has no default", fmt::format("add '{} = ...'.", key));
  return *node;
}

bool TomlReader::has(std::string_view key) { return find(key) != nullptr; }

double TomlReader::to_number(const toml::node& node, std::string_view key) const {
  std::optional<double> value;
  if (node.is_floating_point() || node.is_integer()) value = node.value<double>();
  if (!value) fail(key, "wrong type", "a number is needed", "write a plain number.");
  if (!std::isfinite(*value)) fail(key, "not a finite number", "NaN and infinity have no meaning here", "give a finite number.");
  return *value;
}

std::int64_t TomlReader::to_integer(const toml::node& node, std::string_view key) const {
  if (node.is_integer()) return *node.value<std::int64_t>();
  const double value = to_number(node, key);
  if (value != std::floor(value) || std::abs(value) > 9e15)
    fail(key, "wrong type", "a whole number is needed", "write it without a fraction.");
  return static_cast<std::int64_t>(value);
}

double TomlReader::number(std::string_view key) { return to_number(need(key), key); }
double TomlReader::number(std::string_view key, double fallback) {
  const toml::node* node = find(key);
  return node ? to_number(*node, key) : fallback;
}
std::int64_t TomlReader::integer(std::string_view key) { return to_integer(need(key), key); }
std::int64_t TomlReader::integer(std::string_view key, std::int64_t fallback) {
  const toml::node* node = find(key);
  return node ? to_integer(*node, key) : fallback;
}
std::string TomlReader::text(std::string_view key) {
  const auto value = need(key).value<std::string>();
  if (!need(key).is_string()) fail(key, "wrong type", "a string is needed", "put it in quotes.");
  return *value;
}
std::string TomlReader::text(std::string_view key, const std::string& fallback) { return has(key) ? text(key) : fallback; }
bool TomlReader::flag(std::string_view key, bool fallback) {
  const toml::node* node = find(key);
  if (!node) return fallback;
  if (!node->is_boolean()) fail(key, "wrong type", "true or false is needed", "write true or false.");
  return *node->value<bool>();
}

std::vector<double> TomlReader::numbers(std::string_view key) {
  const toml::node& node = need(key);
  std::vector<double> out;
  if (const auto* array = node.as_array())
    for (const auto& item : *array) out.push_back(to_number(item, key));
  else
    out.push_back(to_number(node, key));
  return out;
}
std::vector<std::int64_t> TomlReader::integers(std::string_view key) {
  const toml::node& node = need(key);
  std::vector<std::int64_t> out;
  if (const auto* array = node.as_array())
    for (const auto& item : *array) out.push_back(to_integer(item, key));
  else
    out.push_back(to_integer(node, key));
  return out;
}
std::vector<std::string> TomlReader::texts(std::string_view key) {
  const toml::node& node = need(key);
  std::vector<std::string> out;
  auto push = [&](const toml::node& item) {
    if (!item.is_string()) fail(key, "wrong type", "strings are needed", "put each value in quotes.");
    out.push_back(*item.value<std::string>());
  };
  if (const auto* array = node.as_array())
    for (const auto& item : *array) push(item);
  else
    push(node);
  return out;
}

bool TomlReader::is_table(std::string_view key) { const auto* node = find(key); return node && node->is_table(); }
bool TomlReader::is_list(std::string_view key) { const auto* node = find(key); return node && node->is_array(); }
bool TomlReader::is_text(std::string_view key) { const auto* node = find(key); return node && node->is_string(); }

TomlReader TomlReader::table(std::string_view key) {
  const toml::node& node = need(key);
  if (!node.is_table()) fail(key, "wrong type", "a table is needed", fmt::format("write [{}].", key));
  return TomlReader(*node.as_table(), file_, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

std::vector<TomlReader> TomlReader::tables(std::string_view key) {
  std::vector<TomlReader> out;
  const toml::node* node = find(key);
  if (!node) return out;
  if (!node->is_array_of_tables()) fail(key, "wrong type", "an array of tables is needed", fmt::format("write [[{}]].", key));
  for (const auto& item : *node->as_array())
    out.emplace_back(*item.as_table(), file_, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
  return out;
}

std::vector<std::string> TomlReader::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : *table_) out.emplace_back(key.str());
  return out;
}

void TomlReader::finish() {
  const std::vector<std::string> candidates(known_.begin(), known_.end());
  for (const auto& [key, value] : *table_)
    if (!known_.count(std::string(key.str())))
      fail(key.str(), "unknown key", "nothing reads it", suggestion(key.str(), candidates));
}

double parse_bytes(const std::string& text, const std::string& where) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    throw InputError(where + ": '" + text + "' is not a size", "a number with a unit is needed", "write for example \"179 GiB\".");
  }
  std::string unit = text.substr(used);
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  else if (unit == "KiB") scale = kKiB;
  else if (unit == "MiB") scale = kMiB;
  else if (unit == "GiB") scale = kGiB;
  else if (unit == "TiB") scale = kTiB;
  else if (unit == "kB" || unit == "KB") scale = 1e3;
  else if (unit == "MB") scale = 1e6;
  else if (unit == "GB") scale = 1e9;
  else if (unit == "TB") scale = 1e12;
  if (scale == 0 || !std::isfinite(value) || value <= 0)
    throw InputError(where + ": '" + text + "' is not a size", "a positive number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB is needed",
                     "write for example \"179 GiB\".");
  return value * scale;
}

}  // namespace tessera
