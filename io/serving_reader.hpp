// How a model is served, from [serving] of a study or from the options of tessera table and lookup. Formats
// and what is left out come from the preset serving/formats.
#pragma once
#include <string>
#include <string_view>

#include "io/toml_reader.hpp"
#include "tessera/serving.hpp"

namespace tessera {

/// Bytes of an element: a format of the preset ("bf16", "fp8", "mxfp8", "nvfp4") or a number of bytes. Throws
/// InputError naming `where`.
double read_element_bytes(const std::string& text, const std::string& where);

/// The table [serving] of a study. Throws InputError: unknown key, nothing positive, a cache without a
/// context.
ServingLimits read_serving(TomlReader);

/// What options change, as they were given; empty: not given. "none" lifts a limit.
struct ServingOptions {
  std::string most_total, most_active, most_memory;
  std::string weights, cache, context, batch;
};
/// `limits` with the changes. Throws InputError naming the option.
ServingLimits change_serving(ServingLimits limits, const ServingOptions&);

/// The preset as text, for the list of presets that a study used.
std::string_view serving_formats_text();

}  // namespace tessera
