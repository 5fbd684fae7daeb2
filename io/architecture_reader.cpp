#include "io/architecture_reader.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "io/huggingface.hpp"
#include "io/preset_name.hpp"
#include "model/embedded_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kKind = "architectures";

/// The keys of a rung and where they go; `experts`, `tied` and so on have the same names in Architecture.
using RungMember = std::variant<std::int64_t LadderRung::*, double LadderRung::*, bool LadderRung::*>;
const std::vector<std::pair<std::string_view, RungMember>>& rung_members() {
  using R = LadderRung;
  static const std::vector<std::pair<std::string_view, RungMember>> all = {
      {"q", &R::q},
      {"experts", &R::experts},
      {"top_k", &R::top_k},
      {"split", &R::split},
      {"vocabulary", &R::vocabulary},
      {"kv_heads", &R::kv_heads},
      {"shared_experts", &R::shared_experts},
      {"dense_layers", &R::dense_layers},
      {"head_dim", &R::head_dim},
      {"layers_per_rung", &R::layers_per_rung},
      {"heads_per_rung", &R::heads_per_rung},
      {"ffn_ratio", &R::ffn_ratio},
      {"tied", &R::tied},
  };
  return all;
}

std::vector<std::string> field_keys() {
  std::vector<std::string> out;
  for (const auto& field : architecture_fields()) out.emplace_back(field.key);
  return out;
}

bool is_file(const std::string& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

bool looks_like_path(const std::string& text) {
  std::error_code code;
  return text.find('/') != std::string::npos || text.ends_with(".toml") || text.ends_with(".json") || fs::exists(text, code);
}

Architecture from_rung_pairs(const Pairs& pairs, const std::string& where) {
  LadderRung rung;
  Pairs rest;
  bool has_q = false;
  for (const auto& [key, value] : pairs) {
    has_q |= key == "q";
    if (!set_rung_key(rung, key, value, where)) rest.emplace_back(key, value);
  }
  if (!has_q) throw InputError(where + ": no q", "the rung of the ladder has no default", "write for example ladder:q=12,experts=96,top_k=2,split=4.");
  for (const auto& [key, value] : rest) {
    if (architecture_field(key)) continue;
    auto known = rung_keys();
    const auto fields = field_keys();
    known.insert(known.end(), fields.begin(), fields.end());
    throw InputError(where + ": unknown key '" + key + "'", "a ladder has no such field", suggestion(key, known));
  }
  Architecture a = ladder(rung);
  for (const auto& [key, value] : rest) set_field(a, *architecture_field(key), value, where + ": " + key);
  if (!rest.empty()) {
    a.name = where;
    check(a);
  }
  return a;
}

/// Sets fields on top of `a`. A split that contradicts the widths is refused: it would change the predicted loss
/// of a geometry without changing the geometry.
void override_fields(Architecture& a, const Pairs& pairs, const std::string& where) {
  std::set<std::string> given;
  for (const auto& [key, value] : pairs) {
    const ArchitectureField* field = architecture_field(key);
    if (!field) throw InputError(where + ": unknown key '" + key + "'", "an architecture has no such field", suggestion(key, field_keys()));
    set_field(a, *field, value, where + ": " + key);
    given.insert(key);
  }
  const bool widths = given.count("dense_ffn") || given.count("expert_ffn") || given.count("hidden") || given.count("experts");
  if (!given.count("split")) {
    complete(a, !widths);
    return;
  }
  complete(a, true);
  if (a.is_moe() && a.dense_ffn > 0 && std::abs(a.split - derived_split(a)) > 1e-9 * a.split)
    throw InputError(where + ": split = " + std::to_string(a.split),
                     "dense_ffn / expert_ffn is " + std::to_string(derived_split(a)) + " here", "change expert_ffn, from which split follows.");
}

Architecture from_scratch(bool moe, const Pairs& pairs, const std::string& where) {
  Architecture a;
  a.name = where;
  std::set<std::string> given;
  for (const auto& [key, value] : pairs) given.insert(key);
  for (const char* key : {"layers", "hidden", "heads", "vocabulary"})
    if (!given.count(key)) throw InputError(where + ": no " + key, "it has no default", std::string("add ") + key + "=....");
  if (moe != (given.count("experts") > 0))
    throw InputError(where + (moe ? ": no experts" : ": experts"), moe ? "a MoE model has routed experts" : "a dense model has none",
                     moe ? "add experts=..., top_k=..., expert_ffn=...." : "write moe:... instead of dense:....");
  override_fields(a, pairs, where);
  return a;
}

Architecture from_preset(const std::string& word) {
  const std::string spelled = spelled_name(word, architecture_names()), name = spelled.empty() ? word : spelled;
  for (const auto& preset : embedded_presets()) {
    if (preset.kind != kKind || preset.name != name) continue;
    const std::string file = "preset " + name;
    const toml::table table = parse_toml_text(preset.text, file);
    TomlReader reader(table, file);
    Architecture a = architecture_from_toml(reader);
    reader.finish();
    a.name = name;
    return a;
  }
  std::vector<std::string> alike;  // "mixtral" is no misspelling of mixtral_8x7b, but means it
  for (const std::string& known : architecture_names())
    if (known.find(name) != std::string::npos) alike.push_back(known);
  std::string remedy = suggestion(name, architecture_names());
  if (!alike.empty()) {
    remedy = "did you mean";
    for (const std::string& known : alike) remedy += (known == alike.front() ? " '" : " or '") + known + "'";
    remedy += "?";
  }
  throw InputError("unknown architecture '" + name + "'", "it is neither a preset nor a file", remedy);
}

Architecture from_file(const std::string& path) {
  std::error_code code;
  if (path.ends_with(".json") || fs::is_directory(path, code)) return read_huggingface(path);
  const toml::table table = parse_toml_file(path);
  TomlReader reader(table, path);
  Architecture a = architecture_from_toml(reader);
  reader.finish();
  if (a.name.empty()) a.name = fs::path(path).stem().string();
  return a;
}

Architecture from_base(const std::string& base) { return looks_like_path(base) ? from_file(base) : from_preset(base); }

}  // namespace

std::vector<std::string> rung_keys() {
  std::vector<std::string> out;
  for (const auto& [key, member] : rung_members()) out.emplace_back(key);
  return out;
}

bool set_rung_key(LadderRung& rung, const std::string& key, const std::string& value, const std::string& where) {
  for (const auto& [name, member] : rung_members()) {
    if (name != key) continue;
    const std::string place = where + ": " + key;
    std::visit(
        [&](auto pointer) {
          auto& slot = rung.*pointer;
          using T = std::decay_t<decltype(slot)>;
          if constexpr (std::is_same_v<T, std::int64_t>) slot = parse_whole(value, place);
          else if constexpr (std::is_same_v<T, double>) slot = parse_real(value, place);
          else slot = parse_flag(value, place);
        },
        member);
    return true;
  }
  return false;
}

Pairs parse_pairs(std::string_view text, const std::string& where) {
  Pairs out;
  std::set<std::string> seen;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size())
      throw InputError(where + ": '" + std::string(item) + "'", "key=value is needed", "write for example layers=32,hidden=4096.");
    std::string key(item.substr(0, equals));
    if (!seen.insert(key).second) throw InputError(where + ": '" + key + "' is given twice", "only one value can hold", "leave one out.");
    out.emplace_back(std::move(key), item.substr(equals + 1));
  }
  if (out.empty()) throw InputError(where + " has no keys", "key=value,... is needed", "write for example ladder:q=12,experts=96.");
  return out;
}

void complete(Architecture& a, bool split_given) {
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.head_dim == 0 && a.attention == AttentionKind::gqa && a.heads > 0) {
    if (a.hidden % a.heads != 0)
      throw InputError("architecture '" + a.name + "': head_dim is not given", "heads does not divide hidden", "give head_dim.");
    a.head_dim = a.hidden / a.heads;
  }
  if (!split_given) a.split = derived_split(a);
  check(a);
}

Architecture architecture_from_toml(TomlReader& reader) {
  const std::string family = reader.text("family", "explicit");
  if (family != "explicit" && family != "ladder")
    reader.fail("family", "unknown family '" + family + "'", "ladder and explicit are known", suggestion(family, {"ladder", "explicit"}));
  Architecture a;
  if (family == "ladder") {
    LadderRung rung;
    reader.integer("q");  // the rung has no default: fails where it is missing
    for (const auto& [key, member] : rung_members()) {
      if (!reader.has(key)) continue;
      std::visit(
          [&, name = key](auto pointer) {
            auto& slot = rung.*pointer;
            using T = std::decay_t<decltype(slot)>;
            if constexpr (std::is_same_v<T, std::int64_t>) slot = reader.integer(name);
            else if constexpr (std::is_same_v<T, double>) slot = reader.number(name);
            else slot = reader.flag(name, false);
          },
          member);
    }
    a = ladder(rung);
    a.name = reader.text("name", a.name);
    return a;
  }
  a.name = reader.text("name", "");
  for (const char* key : {"layers", "hidden", "heads", "vocabulary"}) reader.integer(key);
  bool split_given = false;
  for (const auto& field : architecture_fields()) {
    const bool given = read_field(a, field, reader);
    split_given |= given && field.key == "split";
  }
  complete(a, split_given);
  return a;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> out;
  for (const auto& preset : embedded_presets())
    if (preset.kind == kKind) out.emplace_back(preset.name);
  std::sort(out.begin(), out.end());
  return out;
}

Architecture read_architecture(const std::string& spec) {
  if (spec.empty()) throw InputError("the architecture is empty", "a preset, a file or key=value,... is needed", "write for example mixtral_8x7b.");
  if (is_file(spec)) return from_file(spec);  // a path may hold commas and colons
  for (const std::string_view family : {"ladder", "dense", "moe"}) {
    if (!spec.starts_with(std::string(family) + ":")) continue;
    const Pairs pairs = parse_pairs(std::string_view(spec).substr(family.size() + 1), spec);
    return family == "ladder" ? from_rung_pairs(pairs, spec) : from_scratch(family == "moe", pairs, spec);
  }
  const auto equals = spec.find('=');
  if (equals == std::string::npos) return from_base(spec);
  const auto comma = spec.rfind(',', equals);
  if (comma == std::string::npos || comma == 0)
    throw InputError("architecture '" + spec + "' has no base", "key=value,... goes on top of something",
                     "write NAME,key=value,... or ladder:, dense: or moe: before the keys.");
  Architecture a = from_base(spec.substr(0, comma));
  override_fields(a, parse_pairs(std::string_view(spec).substr(comma + 1), spec), spec);
  a.name = spec;
  return a;
}

}  // namespace tessera
