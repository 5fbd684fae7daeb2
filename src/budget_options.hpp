// The options by which table and lookup name budgets: windows in days, or what pays for them.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "io/budget_table.hpp"
#include "io/serving_reader.hpp"

namespace tessera {

struct BudgetOptions {
  std::string nodes, devices, days, device_hours, usd, mwh, price, joules;
  std::optional<std::int64_t> spare_nodes;
  std::optional<double> stopped_days;
  ServingOptions serving;
};

/// Adds the formats, the context and the batch with which memory at inference is counted.
void add_serving_load(CLI::App&, ServingOptions&);

/// Adds what says the size, the window, the prices and the terms.
void add_budget_options(CLI::App&, BudgetOptions&, const std::string& nodes_default,
                        const std::string& days_default);

/// What the options ask for.
struct Budgets {
  std::vector<std::int64_t> nodes;    ///< empty: by devices
  std::vector<std::int64_t> devices;  ///< both empty: those swept
  BudgetUnit unit = BudgetUnit::days;
  std::vector<double> amounts;  ///< empty: the study's days
  DeviceHours hours;
  std::optional<std::int64_t> spare_nodes;
  std::optional<double> stopped_days;
  ServingOptions serving;

  /// Those of the table's study with what the options change.
  BudgetTerms terms(const BudgetTable&) const;

  /// Numbers of nodes of a cluster. Throws InputError where devices are no whole nodes.
  std::vector<std::int64_t> sizes(const BudgetTable&, const std::string& cluster) const;

  /// Windows [days] of a cluster at a number of nodes, one per amount.
  std::vector<double> days(const BudgetTable&, const std::string& cluster, std::int64_t nodes) const;
};
/// Throws InputError: no numbers, two kinds of budget.
Budgets parse_budgets(const BudgetOptions&);
/// Prices by names that the table does not have. Throws InputError.
void check_names(const Budgets&, const BudgetTable&);

}  // namespace tessera
