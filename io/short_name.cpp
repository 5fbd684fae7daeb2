// A name of few letters for tables and charts.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "io/report_parts.hpp"

namespace tessera::reporting {
namespace {

/// Keys of a rung, and how a value is written behind them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kWords{{{"q", "q"},
                                                                                {"experts", "E"},
                                                                                {"top_k", "K"},
                                                                                {"split", "G"},
                                                                                {"vocabulary", "vocabulary="},
                                                                                {"kv_heads", "kv="},
                                                                                {"shared_experts", "shared="},
                                                                                {"dense_layers", "dense="},
                                                                                {"head_dim", "head="},
                                                                                {"layers_per_rung", "layers=q*"},
                                                                                {"heads_per_rung", "heads=q*"},
                                                                                {"ffn_ratio", "ffn=d*"}}};

std::string word_of(std::string_view key, std::string_view value) {
  if (key == "experts" && value == "0") return "dense";
  for (const auto& [known, word] : kWords)
    if (known == key) return std::string(word).append(value);
  return std::string(key).append("=").append(value);
}

}  // namespace

// From the whole name, which holds every key that is not at its default: two architectures of one grid never share a name.
std::string short_name(const Architecture& a) {
  constexpr std::string_view kLadder = "ladder:";
  std::string_view keys = a.name;
  if (!keys.starts_with(kLadder)) return a.name;
  keys.remove_prefix(kLadder.size());
  std::string text;
  while (!keys.empty()) {
    const std::string_view pair = keys.substr(0, keys.find(','));
    keys.remove_prefix(std::min(keys.size(), pair.size() + 1));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    text += (text.empty() ? "" : " ") + word_of(pair.substr(0, equals), value);
  }
  return text;
}

}  // namespace tessera::reporting
