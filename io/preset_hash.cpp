#include "io/preset_hash.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "io/hash.hpp"
#include "model/embedded_presets.hpp"

namespace tessera {

std::string preset_text(const std::string& kind, const std::string& name) {
  for (const auto& preset : embedded_presets())
    if (preset.kind == kind && preset.name == name) return std::string(preset.text);
  std::error_code code;
  std::string path = name;
  if (std::filesystem::is_directory(path, code)) path += "/config.json";  // a Hugging Face folder
  if (!std::filesystem::is_regular_file(path, code)) return {};
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void add_preset(std::vector<std::string>& presets, const std::string& kind, const std::string& spec) {
  const std::string name = spec.substr(0, spec.find_first_of(",:"));
  const std::string text = preset_text(kind, name);
  if (text.empty()) return;
  const std::string entry = kind + " " + name + " " + hash_text(text_hash(text));
  if (std::find(presets.begin(), presets.end(), entry) == presets.end()) presets.push_back(entry);
}

}  // namespace tessera
