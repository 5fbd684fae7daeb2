#include "io/study_architectures.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "io/architecture_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostArchitectures = 1'000'000;  // memory: about a kilobyte each

/// Each key with its values as text; the grid is their product.
using Grid = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct Guards {
  double min_sparsity = 0;
  double most_total = 0, most_active = 0;  // 0: no limit
  std::size_t refused_top_k = 0, refused_sparsity = 0, refused_size = 0;

  bool accept(const ParameterCount& count) {
    if (count.sparsity() < min_sparsity) return ++refused_sparsity, false;
    const auto total = static_cast<double>(count.non_embedding_total);
    const auto active = static_cast<double>(count.non_embedding_active);
    if ((most_total > 0 && total > most_total) || (most_active > 0 && active > most_active)) return ++refused_size, false;
    return true;
  }
};

Guards read_guards(TomlReader& reader) {
  Guards guards;
  guards.min_sparsity = reader.number("min_sparsity", 0);
  if (guards.min_sparsity < 0 || guards.min_sparsity >= 1)
    reader.fail("min_sparsity", "out of range", "a sparsity lies from 0 to below 1", "give for example 0.7.");
  for (const auto& [key, member] : {std::pair{"max_total_parameters", &Guards::most_total}, {"max_active_parameters", &Guards::most_active}}) {
    guards.*member = reader.number(key, 0);
    if (reader.has(key) && guards.*member <= 0)
      reader.fail(key, "out of range", "a limit on parameters is positive", "give for example 1e12.");
  }
  return guards;
}

/// The values of a key as text, without repeats, in the order given.
std::vector<std::string> values_of(TomlReader& reader, const std::string& key) {
  std::vector<std::string> out;
  auto push = [&](const toml::node& node) {
    std::string text;
    if (const auto* whole = node.as_integer()) text = fmt::format("{}", whole->get());
    else if (const auto* number = node.as_floating_point()) text = fmt::format("{}", number->get());
    else if (const auto* flag = node.as_boolean()) text = flag->get() ? "true" : "false";
    else if (const auto* word = node.as_string()) text = word->get();
    else reader.fail(key, "wrong type", "numbers, words or true/false are needed", "write a value or a list of values.");
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  };
  reader.has(key);  // marks it as known
  const toml::node& node = *reader.raw().get(key);
  if (const auto* list = node.as_array())
    for (const auto& item : *list) push(item);
  else
    push(node);
  if (out.empty()) reader.fail(key, "empty list", "a grid needs at least one value of each key", "give a value or leave the key out.");
  return out;
}

Grid read_grid(TomlReader& reader, const std::set<std::string>& keys) {
  Grid grid;
  std::size_t size = 1;
  for (const auto& key : reader.keys()) {
    if (!keys.count(key)) continue;
    grid.emplace_back(key, values_of(reader, key));
    size *= grid.back().second.size();
    if (size > kMostArchitectures)
      reader.fail(key, "too many architectures", fmt::format("the grid has more than {} combinations", kMostArchitectures),
                  "shorten the lists.");
  }
  return grid;
}

/// Calls take(values) for every combination, the last key fastest.
template <class Take>
void for_each_combination(const Grid& grid, Take take) {
  std::vector<std::size_t> at(grid.size(), 0);
  while (true) {
    take(at);
    std::size_t digit = grid.size();
    while (digit > 0 && ++at[digit - 1] == grid[digit - 1].second.size()) at[--digit] = 0;
    if (digit == 0) return;
  }
}

/// Runs `make` and puts file, line and key before the message of what it throws.
template <class Make>
auto located(TomlReader& reader, std::string_view key, Make make) {
  try {
    return make();
  } catch (const InputError& error) {
    reader.fail(key, error);
  }
}

void keep(Study& study, Guards& guards, Architecture architecture) {
  const ParameterCount count = count_parameters(architecture);
  if (!guards.accept(count)) return;
  study.architectures.push_back(std::move(architecture));
  study.counts.push_back(count);
}

// Order of the rungs' keys, outermost first, so that ids do not depend on the order of lines in the file.
const std::vector<std::string>& rung_order() {
  static const std::vector<std::string> order{"layers_per_rung", "heads_per_rung", "ffn_ratio",    "head_dim",
                                              "kv_heads",        "vocabulary",     "tied",         "shared_experts",
                                              "dense_layers",    "q",              "experts",      "top_k",
                                              "split"};
  return order;
}

void read_ladder(TomlReader& reader, Study& study, Guards& guards, bool dense) {
  const auto known = rung_keys();
  std::set<std::string> keys(known.begin(), known.end());
  if (dense)
    for (const char* key : {"experts", "top_k", "split", "shared_experts", "dense_layers"}) keys.erase(key);
  for (const auto& key : keys) reader.accept(key);
  reader.finish();  // a misspelt key is unknown before it is missing
  if (!reader.has("q")) reader.fail("q", "missing key", "the ladder's rungs have no default", "add for example q = [8, 10, 12].");
  Grid grid = read_grid(reader, keys);
  auto position = [](const std::string& key) {
    const auto& order = rung_order();
    return std::find(order.begin(), order.end(), key) - order.begin();
  };
  std::stable_sort(grid.begin(), grid.end(), [&](const auto& a, const auto& b) { return position(a.first) < position(b.first); });
  const std::string where = "architecture";
  for_each_combination(grid, [&](const std::vector<std::size_t>& at) {
    LadderRung rung;
    if (dense) rung.experts = 0;
    bool first_of_moe_keys = true;  // a dense model has one combination of the keys that only experts have
    located(reader, "q", [&] {
      for (std::size_t i = 0; i < grid.size(); ++i) {
        const auto& [key, values] = grid[i];
        set_rung_key(rung, key, values[at[i]], where + "." + key);
        if ((key == "top_k" || key == "split" || key == "shared_experts" || key == "dense_layers") && at[i] > 0) first_of_moe_keys = false;
      }
      if (rung.experts == 0) {
        if (first_of_moe_keys) keep(study, guards, ladder(rung));
      } else if (rung.top_k >= rung.experts && rung.top_k > 0) {
        ++guards.refused_top_k;
      } else {
        keep(study, guards, ladder(rung));
      }
    });
  });
}

void read_fields_family(TomlReader& reader, Study& study, Guards& guards, const std::string& family) {
  std::set<std::string> keys;
  for (const auto& field : architecture_fields()) keys.insert(std::string(field.key));
  const Grid grid = read_grid(reader, keys);
  if (grid.empty())
    reader.fail("", "no field of an architecture", fmt::format("family \"{}\" is made from layers, hidden, heads, ...", family),
                "add for example layers = 32.");
  for_each_combination(grid, [&](const std::vector<std::size_t>& at) {
    std::string spec = family + ":";
    std::int64_t experts = 0, top_k = 0;
    located(reader, grid.front().first, [&] {
      for (std::size_t i = 0; i < grid.size(); ++i) {
        const std::string& value = grid[i].second[at[i]];
        if (i > 0) spec += ',';
        spec += grid[i].first + "=" + value;
        if (grid[i].first == "experts") experts = parse_whole(value, "architecture.experts");
        if (grid[i].first == "top_k") top_k = parse_whole(value, "architecture.top_k");
      }
      if (experts > 0 && top_k >= experts) ++guards.refused_top_k;
      else keep(study, guards, read_architecture(spec));
    });
  });
}

void read_models(TomlReader& reader, Study& study, Guards& guards) {
  const auto specs = reader.texts("models");
  if (specs.empty()) reader.fail("models", "empty list", "a study needs an architecture", "name a model, e.g. \"mixtral_8x7b\".");
  for (const auto& spec : specs) {
    Architecture architecture = located(reader, "models", [&] { return read_architecture(spec); });
    if (std::find(study.architectures.begin(), study.architectures.end(), architecture) != study.architectures.end()) continue;
    keep(study, guards, std::move(architecture));
  }
}

}  // namespace

void read_architectures(TomlReader& reader, Study& study) {
  Guards guards = read_guards(reader);
  const std::size_t before = study.architectures.size();
  const char* what = "models";
  if (reader.has("models")) {
    if (reader.has("family")) reader.fail("family", "both family and models", "a table is a family or a list of models", "use two [[architecture]] tables.");
    read_models(reader, study, guards);
  } else {
    what = "q";
    const std::string family = reader.text("family", "ladder");
    if (family == "ladder") read_ladder(reader, study, guards, false);
    else if (family == "dense" && reader.has("q")) read_ladder(reader, study, guards, true);
    else if (family == "dense" || family == "moe") read_fields_family(reader, study, guards, family);
    else reader.fail("family", "unknown family '" + family + "'", "there is no such family", suggestion(family, {"ladder", "dense", "moe"}));
  }
  reader.finish();
  if (study.architectures.size() == before)
    reader.fail(reader.has(what) ? what : "", "no architecture is left",
                fmt::format("{} combinations have top_k >= experts, {} are below min_sparsity, {} are above a limit on parameters",
                            guards.refused_top_k, guards.refused_sparsity, guards.refused_size),
                "widen the grid or loosen the guards.");
}

}  // namespace tessera
