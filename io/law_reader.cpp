#include "io/law_reader.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "io/preset_name.hpp"
#include "io/toml_reader.hpp"
#include "model/embedded_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::vector<std::string> names_of(std::span<const CoefficientInfo> infos) {
  std::vector<std::string> out;
  for (const auto& info : infos) out.emplace_back(info.name);
  return out;
}

std::vector<std::string> form_names() {
  std::vector<std::string> out;
  for (const auto& info : all_forms()) out.emplace_back(info.name);
  return out;
}

template <typename Enum>
Enum choose(TomlReader& reader, std::string_view key, const std::vector<std::pair<std::string, Enum>>& values) {
  const std::string word = reader.text(key, values.front().first);
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    if (name == word) return value;
    names.push_back(name);
  }
  reader.fail(key, fmt::format("'{}' is not a choice", word), fmt::format("known are {}", fmt::join(names, ", ")), suggestion(word, names));
}

LawConvention read_convention(TomlReader reader) {
  LawConvention out;
  out.size = choose<SizeKind>(reader, "size", {{"total", SizeKind::total}, {"active", SizeKind::active}});
  out.embedding = reader.flag("embedding", false);
  out.router = reader.flag("router", false);
  out.split_width = reader.number("split_width", 0);
  out.sparsity = choose<SparsityKind>(reader, "sparsity",
                                      {{"parameters", SparsityKind::parameters},
                                       {"experts", SparsityKind::experts},
                                       {"shared", SparsityKind::shared},
                                       {"weights", SparsityKind::weights}});
  reader.finish();
  return out;
}

std::pair<double, double> read_pair(TomlReader& reader, std::string_view key) {
  const auto pair = reader.numbers(key);
  if (pair.size() != 2) reader.fail(key, "not an interval", "two numbers are needed", "write [low, high].");
  if (pair[0] > pair[1]) reader.fail(key, "empty interval", "its low end is above its high end", "swap the ends.");
  return {pair[0], pair[1]};
}

std::vector<LawRange> read_ranges(TomlReader reader) {
  std::vector<LawRange> out;
  for (int i = 0; i < static_cast<int>(LawAxis::count_); ++i) {
    const auto axis = static_cast<LawAxis>(i);
    if (!reader.has(to_string(axis))) continue;
    const auto [low, high] = read_pair(reader, to_string(axis));
    out.push_back({axis, low, high});
  }
  reader.finish();
  return out;
}

LevelSlope read_level_slope(TomlReader reader) {
  LevelSlope out{};
  out.total = reader.number("total");
  out.sparsity = reader.number("sparsity");
  out.tokens = reader.number("tokens");
  out.split = reader.number("split");
  const auto rows = reader.numbers("cholesky");
  if (rows.size() != out.cholesky.size())
    reader.fail("cholesky", fmt::format("{} numbers", rows.size()), "the lower triangle of 11 coordinates has 66", "give it row by row.");
  std::copy(rows.begin(), rows.end(), out.cholesky.begin());
  if (!(out.total > 0) || !(out.tokens > 0) || !(out.split > 0) || !(out.sparsity >= 0 && out.sparsity < 1))
    reader.fail("total", "no reference point", "counts must be positive and 0 <= sparsity < 1", "correct it.");
  reader.finish();
  return out;
}

std::vector<std::vector<double>> read_members(TomlReader& reader, std::size_t width) {
  const auto flat = reader.numbers("members");
  if (flat.size() % width != 0)
    reader.fail("members", fmt::format("{} numbers", flat.size()), fmt::format("members have {} numbers each", width), "give whole members.");
  std::vector<std::vector<double>> out;
  for (std::size_t at = 0; at < flat.size(); at += width) out.emplace_back(flat.begin() + at, flat.begin() + at + width);
  return out;
}

void read_coefficients(TomlReader reader, Law& law) {
  for (const auto& info : form_info(law.form).coefficients) law.coefficients.push_back(reader.number(info.name));
  reader.finish();
}

void read_intervals(TomlReader reader, Law& law) {
  for (const auto& info : form_info(law.form).coefficients) {
    if (!reader.has(info.name)) {
      law.intervals.emplace_back(std::nullopt);
      continue;
    }
    const auto [low, high] = read_pair(reader, info.name);
    law.intervals.emplace_back(LawInterval{low, high});
  }
  reader.finish();
}

void read_identified(TomlReader& reader, Law& law) {
  if (!reader.has("identified")) return;
  law.identified = reader.texts("identified");
  const auto names = names_of(form_info(law.form).coefficients);
  for (const auto& name : law.identified)
    if (std::find(names.begin(), names.end(), name) == names.end())
      reader.fail("identified", fmt::format("'{}' is no coefficient", name), "it names coefficients of the form", suggestion(name, names));
}

Law read_law_table(const toml::table& table, const std::string& file) {
  TomlReader reader(table, file);
  if (reader.has("same_as")) {
    const std::string name = reader.text("same_as");
    reader.finish();
    return read_law(name);
  }
  Law law;
  law.name = file;
  const std::string form = reader.text("form");
  const auto known = law_form_from(form);
  if (!known) reader.fail("form", fmt::format("'{}' is no form", form), "a law is one of the known formulas", suggestion(form, form_names()));
  law.form = *known;
  law.title = reader.text("title", "");
  law.source = reader.text("source", "");
  law.evidence = reader.text("evidence", "");
  law.note = reader.text("note", "");
  law.fixed_tokens = reader.number("fixed_tokens", 0);
  law.noise_sd = reader.number("noise_sd", 0);
  law.form_sd = reader.number("form_sd", 0);
  law.dense_only = reader.flag("dense_only", false);
  law.synthetic_uncertainty = reader.flag("synthetic_uncertainty", false);
  read_coefficients(reader.table("coefficients"), law);
  if (reader.has("intervals")) read_intervals(reader.table("intervals"), law);
  read_identified(reader, law);
  if (reader.has("convention")) law.convention = read_convention(reader.table("convention"));
  if (reader.has("range")) law.ranges = read_ranges(reader.table("range"));
  if (reader.has("level_slope")) law.level_slope = read_level_slope(reader.table("level_slope"));
  if (reader.has("members")) law.members = read_members(reader, law.coefficients.size());
  reader.finish();
  check(law);
  return law;
}

const EmbeddedPreset* find_preset(std::string_view name) {
  for (const auto& preset : embedded_presets())
    if (preset.kind == "laws" && preset.name == name) return &preset;
  return nullptr;
}

Law read_base(const std::string& word) {
  const std::string spelled = spelled_name(word, law_names()), spec = spelled.empty() ? word : spelled;
  if (const auto* preset = find_preset(spec)) {
    const toml::table table = parse_toml_text(preset->text, "preset laws/" + spec);
    Law law = read_law_table(table, spec);
    law.name = spec;
    return law;
  }
  if (spec.ends_with(".toml") || std::filesystem::exists(spec)) return read_law_table(parse_toml_file(spec), spec);
  throw InputError(fmt::format("'{}' is no law", spec), "neither a preset nor a file", suggestion(spec, law_names()));
}

/// The whole word as a finite number.
std::optional<double> to_number(const std::string& word) {
  std::size_t used = 0;
  try {
    const double value = std::stod(word, &used);
    if (used == word.size() && std::isfinite(value)) return value;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

/// "beta=0.2" applied to a law.
void change(Law& law, const std::string& assignment, const std::string& spec) {
  const auto names = names_of(form_info(law.form).coefficients);
  const auto equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  const auto at = std::find(names.begin(), names.end(), key);
  if (equals == std::string::npos || at == names.end())
    throw InputError(fmt::format("law '{}': '{}' changes nothing", spec, assignment), "a change is coefficient=number", suggestion(key, names));
  const std::string word = assignment.substr(equals + 1);
  const auto value = to_number(word);
  if (!value)
    throw InputError(fmt::format("law '{}': '{}' is not a number", spec, word), "a coefficient is one", "write for example beta=0.2.");
  law.coefficients[static_cast<std::size_t>(at - names.begin())] = *value;
}

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

/// Position of every coefficient in the header of an ensemble file.
std::vector<std::size_t> ensemble_columns(std::span<const CoefficientInfo> infos, const std::vector<std::string>& header,
                                          const std::string& where) {
  std::vector<std::size_t> columns;
  for (const auto& info : infos) {
    const auto at = std::find(header.begin(), header.end(), info.name);
    if (at == header.end())
      throw InputError(fmt::format("{}: no column '{}'", where, info.name),
                       "every coefficient of the law's form is needed", "name the columns after them.");
    columns.push_back(static_cast<std::size_t>(at - header.begin()));
  }
  return columns;
}

double ensemble_cell(const CoefficientInfo& info, const std::string& cell, const std::string& where) {
  const auto value = to_number(cell);
  const bool positive = info.kind == CoefficientKind::amplitude || info.kind == CoefficientKind::exponent;
  if (!value || (positive && !(*value > 0)))
    throw InputError(fmt::format("{}: {} = '{}'", where, info.name, cell), "amplitudes and exponents are positive numbers",
                     "correct or remove the row.");
  return *value;
}

/// Shortest text that reads back to the same double, always a TOML float (large whole numbers are not lossless
/// as integers there).
std::string real(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

Law read_law_text(const std::string& text, const std::string& file) {
  return read_law_table(parse_toml_text(text, file), file);
}

Law read_law(const std::string& spec) {
  if (std::filesystem::exists(spec) || spec.find(',') == std::string::npos) return read_base(spec);
  std::stringstream parts(spec);
  std::string part;
  std::getline(parts, part, ',');
  Law law = read_base(part);
  while (std::getline(parts, part, ',')) change(law, part, spec);
  law.name = spec;
  if (law.level_slope || !law.members.empty())
    law.note += " Coefficients were changed, so the law's ensemble does not apply and was dropped.";
  law.level_slope.reset();
  law.members.clear();
  law.intervals.clear();
  check(law);
  return law;
}

std::vector<std::string> law_names() {
  std::vector<std::string> out;
  for (const auto& preset : embedded_presets())
    if (preset.kind == "laws") out.emplace_back(preset.name);
  return out;
}

std::vector<std::vector<double>> read_ensemble(const std::string& path, const Law& law) {
  std::ifstream file(path);
  if (!file)
    throw InputError(fmt::format("ensemble '{}' cannot be read", path), "no such file, or no permission",
                     "give a CSV file of coefficients.");
  const auto infos = form_info(law.form).coefficients;
  std::vector<std::size_t> columns;
  std::size_t width = 0;
  std::vector<std::vector<double>> out;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const auto cells = split_cells(line);
    const std::string where = fmt::format("ensemble '{}', line {}", path, number);
    if (width == 0) {
      width = cells.size();
      columns = ensemble_columns(infos, cells, where);
      continue;
    }
    if (cells.size() != width)
      throw InputError(fmt::format("{}: {} cells", where, cells.size()), fmt::format("the header has {}", width),
                       "complete the row.");
    std::vector<double> member;
    for (std::size_t i = 0; i < infos.size(); ++i) member.push_back(ensemble_cell(infos[i], cells[columns[i]], where));
    out.push_back(std::move(member));
  }
  if (out.empty())
    throw InputError(fmt::format("ensemble '{}' has no members", path), "a line of names and rows of numbers are needed",
                     "check the file.");
  return out;
}

std::string law_to_toml(const Law& law) {
  static constexpr const char* kSparsity[] = {"parameters", "experts", "shared", "weights"};
  const auto infos = form_info(law.form).coefficients;
  std::string out = fmt::format("form = \"{}\"  # {}\n", form_info(law.form).name, form_info(law.form).expression);
  const std::pair<const char*, const std::string*> texts[] = {
      {"title", &law.title}, {"source", &law.source}, {"evidence", &law.evidence}, {"note", &law.note}};
  for (const auto& [key, text] : texts)
    if (!text->empty()) out += fmt::format("{} = {}\n", key, quoted(*text));
  if (law.fixed_tokens > 0) out += fmt::format("fixed_tokens = {}  # [tokens]\n", real(law.fixed_tokens));
  if (law.noise_sd > 0) out += fmt::format("noise_sd = {}  # [nats]\n", real(law.noise_sd));
  if (law.form_sd > 0) out += fmt::format("form_sd = {}  # [nats]\n", real(law.form_sd));
  if (law.dense_only) out += "dense_only = true\n";
  if (law.synthetic_uncertainty) out += "synthetic_uncertainty = true\n";
  if (!law.identified.empty()) out += fmt::format("identified = [\"{}\"]\n", fmt::join(law.identified, "\", \""));
  if (!law.members.empty()) {
    out += fmt::format("members = [  # {} bootstrap members, coefficients in the order below\n", law.members.size());
    for (const auto& member : law.members) {
      out += "  ";
      for (const double value : member) out += real(value) + ", ";
      out.back() = '\n';
    }
    out += "]\n";
  }
  out += "\n[coefficients]  # nats per token, raw counts\n";
  for (std::size_t i = 0; i < infos.size(); ++i) out += fmt::format("{} = {}\n", infos[i].name, real(law.coefficients[i]));
  if (!law.intervals.empty()) {
    out += "\n[intervals]  # 95 %\n";
    for (std::size_t i = 0; i < infos.size(); ++i)
      if (law.intervals[i]) out += fmt::format("{} = [{}, {}]\n", infos[i].name, real(law.intervals[i]->low), real(law.intervals[i]->high));
  }
  out += fmt::format("\n[convention]\nsize = \"{}\"\nembedding = {}\nrouter = {}\nsparsity = \"{}\"\n",
                     law.convention.size == SizeKind::total ? "total" : "active", law.convention.embedding,
                     law.convention.router, kSparsity[static_cast<int>(law.convention.sparsity)]);
  if (law.convention.split_width > 0) out += fmt::format("split_width = {}\n", real(law.convention.split_width));
  if (!law.ranges.empty()) {
    out += "\n[range]  # of the runs\n";
    for (const auto& range : law.ranges) out += fmt::format("{} = [{}, {}]\n", to_string(range.axis), real(range.low), real(range.high));
  }
  if (law.level_slope) {
    const auto& ls = *law.level_slope;
    out += fmt::format("\n[level_slope]\ntotal = {}\nsparsity = {}\ntokens = {}\nsplit = {}\ncholesky = [", real(ls.total), real(ls.sparsity), real(ls.tokens), real(ls.split));
    for (const double value : ls.cholesky) out += real(value) + ", ";
    out += "]\n";
  }
  return out;
}

}  // namespace tessera
