// The text behind a study: the file as given, then one comment line for each change made on the command line.
//   ...
//   #: --nodes 16,32
// so that a manifest or a results file says exactly what ran, and the study can be made again from it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "io/study_reader.hpp"

namespace tessera {

/// File text plus a line per override.
std::string study_source(std::string_view text, const StudyOverrides&);
/// The inverse: the file's text and the overrides behind it.
std::pair<std::string, StudyOverrides> split_source(const std::string& source);

/// Writes the overrides into the parsed table, as if they stood in the file. Throws InputError naming the option.
void apply_overrides(toml::table&, const StudyOverrides&);

/// "cluster.nodes" -> "32", sorted. A list of one equals its value, 20.0 equals 20.
std::vector<std::pair<std::string, std::string>> flat_fields(const toml::table&);

/// The axes that --fix, --forbid and plan.forbid may name.
const std::vector<std::string>& axis_names();
/// "tp=1,2" -> {"tp", {"1", "2"}}. `option` is named in messages. Throws InputError (no '=', unknown axis).
std::pair<std::string, std::vector<std::string>> parse_axis_setting(const std::string& text, const std::string& option);
/// Is the axis one of whole numbers (and not of words)?
bool integer_axis(std::string_view axis);

}  // namespace tessera
