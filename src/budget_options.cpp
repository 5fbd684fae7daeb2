#include "src/budget_options.hpp"

#include <fmt/format.h>

#include "src/budget_output.hpp"
#include "tessera/error.hpp"

namespace tessera {

void add_budget_options(CLI::App& app, BudgetOptions& o, const std::string& days_default) {
  app.add_option("--days", o.days, "Windows in days, comma-separated" + days_default);
  app.add_option("--device-hours", o.device_hours, "Budgets in device-hours instead of days");
  app.add_option("--usd", o.usd, "Budgets in USD instead of days, at --price (default: preset)");
  app.add_option("--mwh", o.mwh, "Budgets in MWh instead of days, at --joules (default: preset)");
  app.add_option("--price", o.price,
                 "USD per device-hour: a number, preset, or by device or cluster: b200=5.94,h100=2.27");
  app.add_option("--joules", o.joules,
                 "Joules per device-hour of the facility: a number, preset, or by device or cluster");
}

Budgets parse_budgets(const BudgetOptions& o) {
  Budgets out;
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
  if (!o.price.empty()) out.hours.usd = parse_rate(o.price, "--price");
  if (!o.joules.empty()) out.hours.joules = parse_rate(o.joules, "--joules");
  if (out.unit == BudgetUnit::usd && !out.hours.usd.given()) out.hours.usd.preset = true;
  if (out.unit == BudgetUnit::mwh && !out.hours.joules.given()) out.hours.joules.preset = true;
  return out;
}

std::vector<double> Budgets::days(const BudgetTable& table, const std::string& cluster,
                                  std::int64_t nodes) const {
  if (amounts.empty()) return table.days;
  if (unit == BudgetUnit::days) return amounts;
  const auto names = cluster_names(table);
  const std::string name = cluster.empty() ? names.front() : cluster;  // of several, the answer refuses
  const auto devices = static_cast<double>(device_count(table, cluster, nodes));
  const auto at = std::find_if(table.clusters.begin(), table.clusters.end(),
                               [&](const TableCluster& c) { return c.name == name; });
  const DeviceHour hour = device_hour(hours, name, at->device);
  std::vector<double> out;
  for (const double amount : amounts) out.push_back(budget_days(unit, amount, devices, hour, name));
  return out;
}

}  // namespace tessera
