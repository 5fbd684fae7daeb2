#include "io/budget_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "io/budget_table_parts.hpp"
#include "io/preset_reader.hpp"
#include "io/toml_reader.hpp"
#include "io/trust.hpp"
#include "io/used_presets.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

void check_draws(const DrawSettings& d) {
  // Above this the losses of a thousand candidates no longer fit in the memory of a laptop.
  constexpr std::int64_t kMostDraws = 1 << 20;
  if (d.members <= 0 || d.replicates <= 0 || d.members > kMostDraws || d.replicates > kMostDraws / d.members)
    throw InputError(fmt::format("{} members x {} draws", d.members, d.replicates),
                     fmt::format("both are positive and their product is at most {}", kMostDraws),
                     "give for example --members 512 --draws 8.");
  if (d.seed < 0)
    throw InputError(fmt::format("seed {}", d.seed), "a seed is not negative", "give for example 1.");
}

void check_same(const Results& results, const Study& study) {
  const bool same =
      results.clusters.size() == study.clusters.size() &&
      results.architectures.size() == study.architectures.size() &&
      std::equal(results.clusters.begin(), results.clusters.end(), study.clusters.begin(),
                 [](const StoredCluster& s, const Cluster& c) { return s.devices == c.devices; });
  if (!same)
    throw InputError("the study of these results has other clusters or architectures now",
                     "presets or files it names have changed since the sweep", "sweep it again.");
}

}  // namespace

CertaintySettings read_certainty_settings() {
  const std::string file = "preset table/certainty";
  const toml::table table = parse_toml_text(Presets().text("table", "certainty"), file);
  TomlReader reader(table, file);
  reader.accept("source");
  CertaintySettings s{reader.number("common_time_error"), reader.number("paired_law_sd"),
                      reader.number("compressed_slope"), reader.number("compressed_slope_sd"),
                      reader.numbers("sparsity_bands")};
  reader.finish();
  return s;
}

void check_answering_presets(const Results& results, const Study& study) {
  const auto now = used_presets(study);
  for (const auto& stored : results.presets) {
    if (stored.kind != "law" && stored.kind != "goodput") continue;
    const std::string entry = stored.kind + " " + stored.name + " " + stored.hash;
    if (std::none_of(now.begin(), now.end(), [&](const UsedPreset& p) { return preset_entry(p) == entry; }))
      throw InputError(fmt::format("the {} {} is not the one of these results", stored.kind, stored.name),
                       "its values have changed since the sweep, so losses would differ",
                       fmt::format("use tessera {}, or sweep again.", results.version));
  }
}

// The step-time error that is stated of a cluster's best plans: their median.
double typical_error(const Results& results, const Study& study, std::size_t cluster) {
  const Envelope envelope = read_envelope();
  std::vector<double> errors;
  for (const StoredBest& b : results.best)
    if (b.row.cluster == cluster && b.row.feasible != 0)
      errors.push_back(trust_in(envelope, study.architectures[b.row.architecture], study.clusters[cluster], b.plan, study.sequence).expected_error);
  if (errors.empty()) return std::max(study.clusters[cluster].device.time_error, study.clusters[cluster].stack.time_error);
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

BudgetTable make_budget_table(const Results& results, const Study& study, const DrawSettings& draws) {
  check_draws(draws);
  check_same(results, study);
  if (!predicts_loss(study.law))
    throw InputError("law '" + study.law.name + "' predicts no loss", "budgets are compared by loss",
                     "sweep with another law.");
  BudgetTable t;
  t.title = results.title;
  t.hash = results.hash;
  t.version = results.version;
  t.sequence = results.sequence;
  t.days = results.days;
  t.law = study.law;
  t.bounds = study.token_bounds;
  t.value = study.token_value;
  t.terms = study.terms;
  t.draws = draws;
  t.settings = read_certainty_settings();
  for (std::size_t i = 0; i < results.clusters.size(); ++i) {
    const StoredCluster& c = results.clusters[i];
    t.clusters.push_back({c.name, c.device, c.nodes, c.devices, c.node_devices, c.peak_bf16, typical_error(results, study, i)});
  }
  t.architectures = results.architectures;
  t.counts = results.counts;
  for (const StoredBest& b : results.best) {
    if (b.row.feasible == 0 || !(b.mfu > 0)) continue;
    const double devices = static_cast<double>(results.clusters[b.row.cluster].devices);
    const double stored = static_cast<double>(t.counts[b.row.architecture].all_total);
    t.candidates.push_back({b.row.cluster, b.row.architecture, b.row.id, b.plan, b.row.step_seconds,
                            b.row.memory_bytes, b.mfu, goodput(study.goodput, devices, stored).value});
  }
  if (t.candidates.empty())
    throw InputError("no plan of these results fits in memory", "there is nothing to choose from",
                     "sweep with more nodes or smaller architectures.");
  std::stable_sort(t.candidates.begin(), t.candidates.end(), budgets::before);
  return t;
}

std::int64_t law_member_count(const BudgetTable& table) {
  if (table.law.members.empty()) return table.law.level_slope ? table.draws.members : 1;
  return std::min(table.draws.members, static_cast<std::int64_t>(table.law.members.size()));
}

std::vector<std::string> cluster_names(const BudgetTable& table) {
  std::vector<std::string> names;
  for (const auto& c : table.clusters)
    if (std::find(names.begin(), names.end(), c.name) == names.end()) names.push_back(c.name);
  return names;
}

std::vector<std::int64_t> node_counts(const BudgetTable& table, const std::string& cluster) {
  std::set<std::int64_t> nodes;
  for (const auto& c : table.clusters)
    if (c.name == cluster) nodes.insert(c.nodes);
  return {nodes.begin(), nodes.end()};
}

}  // namespace tessera
