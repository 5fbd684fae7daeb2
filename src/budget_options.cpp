#include "src/budget_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/toml_reader.hpp"
#include "src/budget_output.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

/// Before anything is read. The table's own terms are as its study says.
void check_terms(const BudgetOptions& o) {
  if (o.spare_nodes && (*o.spare_nodes < 0 || *o.spare_nodes > 1'000'000))
    throw InputError(fmt::format("--spare-nodes {}", *o.spare_nodes),
                     "a number of nodes from 0 to a million is needed", "correct it.");
  if (o.stopped_days && (!(*o.stopped_days >= 0) || !std::isfinite(*o.stopped_days)))
    throw InputError(fmt::format("--stopped-days {}", *o.stopped_days), "stops last some time or none",
                     "give days, for example 1.5.");
}

}  // namespace

void add_serving_load(CLI::App& app, ServingOptions& o) {
  app.add_option("--serving-weights", o.weights,
                 "Format of the weights at inference: bf16, fp8, mxfp8, nvfp4, or bytes");
  app.add_option("--serving-cache", o.cache, "Format of keys, values and latents at inference");
  app.add_option("--serving-context", o.context,
                 "Tokens of a sequence whose caches count; without it weights alone do");
  app.add_option("--serving-batch", o.batch, "Sequences served at once");
}

void add_budget_options(CLI::App& app, BudgetOptions& o, const std::string& nodes_default,
                        const std::string& days_default) {
  app.add_option("--nodes", o.nodes, "Numbers of nodes, comma-separated" + nodes_default);
  app.add_option("--devices", o.devices, "Numbers of devices instead, the same on every cluster");
  app.add_option("--days", o.days, "Windows in days, comma-separated" + days_default);
  app.add_option("--device-hours", o.device_hours, "Budgets in device-hours instead of days");
  app.add_option("--usd", o.usd, "Budgets in USD instead of days, at --price (default: preset)");
  app.add_option("--mwh", o.mwh, "Budgets in MWh instead of days, at --joules (default: preset)");
  app.add_option("--price", o.price,
                 "USD per device-hour: a number, preset, or by device or cluster: b200=5.94,h100=2.27");
  app.add_option("--joules", o.joules,
                 "Joules per device-hour of the facility: a number, preset, or by device or cluster");
  app.add_option("--spare-nodes", o.spare_nodes,
                 "Nodes that wait for failures, paid for besides --nodes (default: those of the study)");
  app.add_option("--stopped-days", o.stopped_days,
                 "Planned stops within each window, in days (default: those of the study)");
  const std::string or_none = ", or none (default: of the study)";
  app.add_option("--max-total", o.serving.most_total,
                 "Limit for serving: most non-embedding parameters" + or_none);
  app.add_option("--max-active", o.serving.most_active,
                 "Limit for serving: most active non-embedding parameters" + or_none);
  app.add_option("--max-serving-memory", o.serving.most_memory,
                 "Limit for serving: most memory of weights and caches, \"1.2 TB\"" + or_none);
  add_serving_load(app, o.serving);
}

Budgets parse_budgets(const BudgetOptions& o) {
  Budgets out;
  if (!o.nodes.empty() && !o.devices.empty())
    throw InputError("--nodes and --devices", "each says how large the cluster is", "give one of them.");
  if (!o.nodes.empty()) out.nodes = parse_counts(o.nodes, "--nodes");
  if (!o.devices.empty()) out.devices = parse_counts(o.devices, "--devices");
  std::string given;
  for (const auto& [option, list, unit] : {std::tuple{"--days", &o.days, BudgetUnit::days},
                                           {"--device-hours", &o.device_hours, BudgetUnit::device_hours},
                                           {"--usd", &o.usd, BudgetUnit::usd},
                                           {"--mwh", &o.mwh, BudgetUnit::mwh}}) {
    if (list->empty()) continue;
    if (!given.empty())
      throw InputError(fmt::format("{} and {}", given, option), "each says how long the run is",
                       "give one of them.");
    given = option;
    out.unit = unit;
    out.amounts = parse_amounts(*list, option);
  }
  check_terms(o);
  out.spare_nodes = o.spare_nodes;
  out.stopped_days = o.stopped_days;
  out.serving = o.serving;
  if (!o.price.empty()) out.hours.usd = parse_rate(o.price, "--price");
  if (!o.joules.empty()) out.hours.joules = parse_rate(o.joules, "--joules");
  if (out.unit == BudgetUnit::usd && !out.hours.usd.given()) out.hours.usd.preset = true;
  if (out.unit == BudgetUnit::mwh && !out.hours.joules.given()) out.hours.joules.preset = true;
  return out;
}

BudgetTerms Budgets::terms(const BudgetTable& table) const {
  BudgetTerms out = table.terms;
  out.spare_nodes = spare_nodes.value_or(out.spare_nodes);
  out.stopped_days = stopped_days.value_or(out.stopped_days);
  out.serving = change_serving(out.serving, serving);
  return out;
}

void check_names(const Budgets& budgets, const BudgetTable& table) {
  std::vector<std::string> known = cluster_names(table);
  for (const TableCluster& c : table.clusters)
    if (std::find(known.begin(), known.end(), c.device) == known.end()) known.push_back(c.device);
  check_names(budgets.hours.usd, "--price", known);
  check_names(budgets.hours.joules, "--joules", known);
}

std::vector<std::int64_t> Budgets::sizes(const BudgetTable& table, const std::string& cluster) const {
  if (!nodes.empty()) return nodes;
  const auto names = cluster_names(table);
  const std::string name = cluster.empty() ? names.front() : cluster;  // of several, the answer refuses
  if (devices.empty()) return node_counts(table, name);
  const auto at = std::find_if(table.clusters.begin(), table.clusters.end(),
                               [&](const TableCluster& c) { return c.name == name; });
  std::vector<std::int64_t> out;
  if (at == table.clusters.end()) return out;
  for (const std::int64_t count : devices) {
    if (count % at->node_devices != 0)
      throw InputError(fmt::format("--devices {}", count),
                       fmt::format("a node of {} has {}", name, at->node_devices), "give whole nodes.");
    out.push_back(count / at->node_devices);
  }
  return out;
}

std::vector<double> Budgets::days(const BudgetTable& table, const std::string& cluster,
                                  std::int64_t nodes) const {
  if (amounts.empty()) return table.days;
  if (unit == BudgetUnit::days) return amounts;
  const auto names = cluster_names(table);
  const std::string name = cluster.empty() ? names.front() : cluster;  // of several, the answer refuses
  const auto devices = static_cast<double>(device_count(table, cluster, nodes, terms(table).spare_nodes));
  const auto at = std::find_if(table.clusters.begin(), table.clusters.end(),
                               [&](const TableCluster& c) { return c.name == name; });
  const DeviceHour hour = device_hour(hours, name, at->device);
  std::vector<double> out;
  for (const double amount : amounts) out.push_back(budget_days(unit, amount, devices, hour, name));
  return out;
}

}  // namespace tessera
