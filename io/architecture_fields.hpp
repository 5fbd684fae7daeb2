// The fields of an Architecture by name: one table from which files, specs on the spot and JSON are read and
// written, so that a field added to the struct is added in one place.
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/toml_reader.hpp"
#include "tessera/architecture.hpp"

namespace tessera {

struct ArchitectureField {
  using Member = std::variant<std::int64_t Architecture::*, double Architecture::*, bool Architecture::*, std::string Architecture::*,
                              AttentionKind Architecture::*, NormKind Architecture::*, QkNorm Architecture::*>;
  std::string_view key;   ///< name of the struct's member; the key in files and specs
  std::string_view unit;  ///< of the value: "count", "tokens", "elements wide", "", ...
  Member member;
};

/// Every field except `name`, in the order of the struct.
const std::vector<ArchitectureField>& architecture_fields();
/// The field of that key, or nullptr.
const ArchitectureField* architecture_field(std::string_view key);

/// Sets a field from text ("4096", "true", "mla"). `where` names the input in messages. Throws InputError
/// (not a whole number, out of range, NaN, unknown word).
void set_field(Architecture&, const ArchitectureField&, const std::string& text, const std::string& where);
/// Sets a field from a TOML key of the same name if it is there; returns whether it was.
bool read_field(Architecture&, const ArchitectureField&, TomlReader&);

/// Every field under its key, `name` first; `rung` is called `q` (design.md).
nlohmann::ordered_json architecture_json(const Architecture&);
/// non_embedding{total, active, sparsity} and all{total, active, active_without_input_embedding,
/// active_without_embedding_and_head}; counts of parameters, sparsity a fraction.
nlohmann::ordered_json count_json(const ParameterCount&);

/// Whole number from text, "128" or "-3"; throws InputError naming `where` ("1.5", "", "nan", "1e18" are refused).
std::int64_t parse_whole(const std::string& text, const std::string& where);
/// Finite number from text; throws InputError naming `where`.
double parse_real(const std::string& text, const std::string& where);
/// "true" or "false"; throws InputError naming `where`.
bool parse_flag(const std::string& text, const std::string& where);

}  // namespace tessera
