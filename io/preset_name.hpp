// The names of presets: as people spell them, and as they read them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The one of `names` that `word` spells: itself, or the only one that differs from it in case, '-', '_' and '.' alone
/// ("DeepSeek-V3" is deepseek_v3). Empty if there is none or more than one.
std::string spelled_name(std::string_view word, const std::vector<std::string>& names);

/// What people call a built-in device ("NVIDIA H100 SXM5 80 GB" for h100); the name itself where no preset has it.
std::string device_title(const std::string& name);

}  // namespace tessera
