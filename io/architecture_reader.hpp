// Reading an architecture from whatever a user has: a preset's name, a file, or key=value on the spot.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/architecture_fields.hpp"
#include "io/toml_reader.hpp"
#include "tessera/architecture.hpp"

namespace tessera {

/// SPEC is BASE or BASE,key=value,... where a key is a field of Architecture (architecture.hpp) and BASE is
///   a preset              mixtral_8x7b
///   a TOML file           mine.toml            (fields of Architecture, or family = "ladder" and its keys)
///   a Hugging Face file   path/config.json     (or the folder that holds it)
///   ladder:key=value,...  ladder:q=12,experts=96,top_k=2,split=4   (keys of LadderRung)
///   dense:key=value,...   dense:layers=32,hidden=4096,heads=32,kv_heads=8,dense_ffn=14336,vocabulary=128256
///   moe:key=value,...     the same with experts, top_k, expert_ffn
/// kv_heads defaults to heads, head_dim to hidden/heads, split to derived_split(). The result is checked.
/// Throws InputError: unknown preset (names the nearest), unknown key, bad value, inconsistent geometry,
/// missing, empty or binary file, a split that contradicts the widths.
Architecture read_architecture(const std::string& spec);

/// Names of the built-in architectures, sorted.
std::vector<std::string> architecture_names();

/// Reads the keys of one architecture from a table: the fields of Architecture (and `name`), or with
/// family = "ladder" the keys of LadderRung. Checks the result, but does not call finish(): the caller does,
/// after it has read keys of its own from the same table.
Architecture architecture_from_toml(TomlReader&);

/// Fills in kv_heads, head_dim and split where they were not given (0, 0 and `split_given` false), then checks.
void complete(Architecture&, bool split_given);

/// "q=12,experts=96" -> pairs. `where` is named in messages. Throws InputError (no '=', empty or repeated key).
std::vector<std::pair<std::string, std::string>> parse_pairs(std::string_view text, const std::string& where);

/// Sets one key of a LadderRung from text; false if it is no key of a rung.
bool set_rung_key(LadderRung&, const std::string& key, const std::string& value, const std::string& where);
/// Names of the keys of a LadderRung.
std::vector<std::string> rung_keys();

}  // namespace tessera
