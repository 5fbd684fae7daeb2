// Laws as text: presets (model/presets/laws), files with the same keys, and presets changed on the spot.
//
// Keys of a law file: form, title, source, evidence, note, [coefficients], [intervals] (95 %, two numbers each),
// identified, fixed_tokens, noise_sd [nats], form_sd [nats], dense_only, synthetic_uncertainty,
// [convention] size, embedding, router, sparsity; [range] axis = [low, high];
// [level_slope] total, sparsity, tokens, split, cholesky (66 numbers); members = [...] (bootstrap members one after
// the other, each in the order of the form's coefficients); or same_as = "preset" alone.
#pragma once
#include <string>
#include <vector>

#include "tessera/law.hpp"

namespace tessera {

/// `spec` is a preset ("mosaic"), a file (*.toml), or either with changes: "mosaic,beta=0.2", "my.toml,e=0.3".
/// A change drops the ensemble of the law (it belongs to the original coefficients) and says so in `note`.
/// Throws InputError naming file, line and key.
Law read_law(const std::string& spec);
Law read_law_text(const std::string& text, const std::string& file);

/// Preset names, sorted.
std::vector<std::string> law_names();

/// Members of an ensemble from a CSV file: '#' lines, one line of coefficient names, rows of numbers. The law's
/// coefficients must all be there. Rows with a non-positive amplitude or exponent are rejected with an error.
std::vector<std::vector<double>> read_ensemble(const std::string& path, const Law&);

/// A law as a preset file that read_law() reads back to the same values (every bit).
std::string law_to_toml(const Law&);

}  // namespace tessera
