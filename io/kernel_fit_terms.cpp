#include "io/kernel_fit_terms.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/preset_reader.hpp"

namespace tessera {

const FitTerm& FitForm::term(const std::string& key) const {
  for (const FitTerm& t : terms)
    if (t.key == key) return t;
  throw RunError(fmt::format("form '{}' has no term '{}'", name, key));
}

FitForm fit_form(const std::string& name) {
  const std::string file = "preset calibration/tables";
  const toml::table all = parse_toml_text(Presets().text("calibration", "tables"), file);
  const toml::table* table = all.get_as<toml::table>(name);
  if (!table) throw RunError(fmt::format("{} has no form '{}'", file, name));
  TomlReader r(*table, file, name);
  FitForm form;
  form.name = name;
  form.spread = r.number("spread");
  form.small_weight = r.number("small_weight", 1);
  // A TOML table iterates by name; the order in the file is the order of the terms.
  std::vector<std::pair<std::uint32_t, std::string>> keys;
  for (const auto& [key, node] : *table)
    if (node.is_table()) keys.emplace_back(node.source().begin.line, std::string(key.str()));
  std::sort(keys.begin(), keys.end());
  for (const auto& [line, key] : keys) {
    TomlReader t = r.table(key);
    FitTerm term;
    term.key = key;
    term.unit = t.text("unit");
    term.meaning = t.text("meaning");
    term.start = term.value = t.number("start");
    const auto bounds = t.numbers("bounds"), prior = t.numbers("prior");
    if (bounds.size() != 2 || prior.size() != 2 || !(bounds[0] > 0) || !(bounds[0] < term.start && term.start < bounds[1]))
      t.fail("bounds", "not bounds around the start", "a fit begins inside its bounds", "write bounds = [low, high] and prior = [centre, width].");
    term.low = bounds[0];
    term.high = bounds[1];
    term.prior_centre = prior[0];
    term.prior_width = prior[1];
    t.finish();
    form.terms.push_back(term);
  }
  r.finish();
  return form;
}

}  // namespace tessera
