// Writing constants into the text of a preset, so that a calibrated preset keeps its comments, order and other keys.
#pragma once
#include <string>
#include <vector>

#include "io/preset_reader.hpp"

namespace tessera {

/// `text` as a TOML basic string with its quotes.
std::string toml_string(const std::string& text);

/// The table form of a constant, six significant digits: `{ value = .., unit = "..", source = "..", prior = [..], low = ..,
/// high = .., fitted = true }`. Unit and source are left out where empty, prior where its width is 0, low and high where both
/// are 0, fitted where false.
std::string constant_text(const Constant&);

/// `preset_text` with each constant of `values` written as `key = {...}` in place of its old value. Other lines, comments and
/// the order stay as they are. A key of the root table that is missing is appended at the root's end. In a fabric, whose
/// constants are in `[[level]]` tables, a key is "level0.share" (counted from the inside out; appended to that table where
/// missing) or a plain "share" where exactly one table has it. `calibrated_by = "command_line"` is replaced, or inserted after
/// the title. Throws InputError where the text is no TOML, a value is not finite, a key is given twice, is not one of a preset
/// ("bad name!"), names a table that is not there, or could be in several tables.
std::string rewrite_constants(const std::string& preset_text, const std::vector<Constant>& values,
                              const std::string& command_line);

}  // namespace tessera
