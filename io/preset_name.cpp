#include "io/preset_name.hpp"

#include <algorithm>
#include <cctype>

#include <toml++/toml.h>

#include "model/embedded_presets.hpp"

namespace tessera {
namespace {

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_' && c != '.') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string spelled_name(std::string_view word, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), word) != names.end()) return std::string(word);
  std::string found;
  for (const auto& name : names) {
    if (plain(name) != plain(word)) continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

std::string device_title(const std::string& name) {
  for (const auto& preset : embedded_presets())
    if (preset.kind == "devices" && preset.name == name) return toml::parse(preset.text)["title"].value_or(name);
  return name;
}

}  // namespace tessera
