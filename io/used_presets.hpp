// What a study took from presets and files, as resolved values: every device, fabric, stack, law and model in
// full, so that results are self-contained, and a hash of each, so that a changed preset cannot pass for the one
// the results were made with.
#pragma once
#include <string>
#include <vector>

#include "tessera/study.hpp"

namespace tessera {

struct UsedPreset {
  std::string kind;  ///< "cluster", "law", "goodput", "model"
  std::string name;
  std::string text;  ///< values in full: TOML, of a model JSON
};

/// Of a resolved study, in a fixed order: clusters (without their size), law, goodput, models that are not of a
/// ladder.
std::vector<UsedPreset> used_presets(const Study&);

/// "kind name hash", as Study::presets holds them.
std::string preset_entry(const UsedPreset&);

/// Device, fabric and stack with every constant, as TOML with units in comments.
std::string cluster_text(const Cluster&);

}  // namespace tessera
