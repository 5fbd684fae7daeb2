#include "io/manifest.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file_system.hpp"
#include "io/hash.hpp"
#include "io/study_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string manifest_path(const std::string& folder) { return folder + "/manifest.json"; }

/// What is compared, one text per field, in the order in which differences are told.
std::vector<std::pair<std::string, std::string>> compared(const Manifest& m) {
  std::vector<std::pair<std::string, std::string>> out{{"format", std::to_string(m.format)}, {"version", m.version}};
  for (const auto& [key, value] : m.fields) out.emplace_back("study " + key, value);
  for (const auto& preset : m.presets) {
    const std::size_t cut = preset.rfind(' ');
    out.emplace_back("preset " + preset.substr(0, cut), preset.substr(cut + 1));
  }
  out.emplace_back("record", m.record);
  out.emplace_back("search", m.search);
  out.emplace_back("points", std::to_string(m.points));
  out.emplace_back("legal points", std::to_string(m.legal));
  out.emplace_back("units", std::to_string(m.units));
  return out;
}

}  // namespace

Manifest make_manifest(const Study& study, const Space& space) {
  Manifest m;
  m.version = TESSERA_VERSION;
  m.source = study.source;
  m.fields = study_fields(study.source, "study");
  m.presets = study.presets;
  m.record = to_string(study.record);
  m.search = to_string(study.search);
  m.points = space.points();
  m.legal = space.legal();
  m.units = space.units();
  return m;
}

std::string manifest_text(const Manifest& m) {
  nlohmann::ordered_json json;
  json["format"] = m.format;
  json["version"] = m.version;
  json["record"] = m.record;
  json["search"] = m.search;
  json["points"] = m.points;
  json["legal"] = m.legal;
  json["units"] = m.units;
  auto& fields = json["study"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : m.fields) fields[key] = value;
  json["presets"] = m.presets;
  json["source"] = m.source;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::uint64_t manifest_hash(const Manifest& m) { return text_hash(manifest_text(m)); }

Manifest read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw InputError("no sweep in " + folder, "there is no manifest.json", "give the --out folder of a sweep.");
  try {
    const auto json = nlohmann::ordered_json::parse(read_text(path));
    Manifest m;
    m.format = json.at("format");
    m.version = json.at("version");
    m.record = json.at("record");
    m.search = json.at("search");
    m.points = json.at("points");
    m.legal = json.at("legal");
    m.units = json.at("units");
    for (const auto& [key, value] : json.at("study").items()) m.fields.emplace_back(key, value.get<std::string>());
    m.presets = json.at("presets").get<std::vector<std::string>>();
    m.source = json.at("source");
    return m;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(path + " is damaged", error.what(), "start over with --redo.");
  }
}

void write_manifest(const std::string& folder, const Manifest& m) { replace_file(manifest_path(folder), manifest_text(m)); }

void check_same(const Manifest& stored, const Manifest& now, const std::string& folder) {
  const auto before = compared(stored), after = compared(now);
  const std::string remedy = "go on with the study, version and presets it was started with, start over with --redo, or give another --out folder.";
  auto find = [](const auto& list, const std::string& key) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.first == key; });
    return at == list.end() ? std::string("nothing") : at->second;
  };
  auto differ = [&](const std::string& key, const std::string& old_value, const std::string& new_value) {
    throw InputError(fmt::format("{} cannot be resumed: {} is {} there and {} now", folder, key, old_value, new_value),
                     "its units were evaluated with the former", remedy);
  };
  for (const auto& [key, value] : before)
    if (find(after, key) != value) differ(key, value, find(after, key));
  for (const auto& [key, value] : after)
    if (find(before, key) != value) differ(key, find(before, key), value);
}

}  // namespace tessera
