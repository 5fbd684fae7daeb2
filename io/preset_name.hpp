// The name of a preset as people spell it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The one of `names` that `word` spells: itself, or the only one that differs from it in case, '-', '_' and '.' alone
/// ("DeepSeek-V3" is deepseek_v3). Empty if there is none or more than one.
std::string spelled_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace tessera
