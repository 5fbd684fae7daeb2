// Which presets a study used, by content: "kind name hash". A resumed sweep and a replay compare them, so that a
// changed preset or file cannot pass for the one the results were made with.
#pragma once
#include <string>
#include <vector>

namespace tessera {

/// Adds the preset or file behind `spec` ("mixtral_8x7b", "my.toml", "mosaic,beta=0.2": what follows a comma or
/// colon is part of the study, not of the preset). Text that is neither preset nor file ("ladder:q=12", "0.97")
/// adds nothing. `kind` is a folder of model/presets.
void add_preset(std::vector<std::string>& presets, const std::string& kind, const std::string& spec);

/// Text of a preset of "kind name hash" as compiled in or on disk; empty if there is none.
std::string preset_text(const std::string& kind, const std::string& name);

}  // namespace tessera
