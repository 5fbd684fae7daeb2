// The preset files of model/presets, compiled into the binary.
#pragma once
#include <string_view>
#include <vector>

namespace tessera {

struct EmbeddedPreset {
  std::string_view kind;  ///< folder: devices, fabrics, stacks, laws, architectures, goodput, ...
  std::string_view name;  ///< file name without .toml
  std::string_view text;
};

/// Every embedded preset, sorted by kind, then name.
const std::vector<EmbeddedPreset>& embedded_presets();

}  // namespace tessera
