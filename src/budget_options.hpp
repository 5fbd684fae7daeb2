// The options by which table and lookup name budgets: windows in days, or what pays for them.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "io/budget_table.hpp"

namespace tessera {

struct BudgetOptions {
  std::string days, device_hours, usd, mwh, price, joules;
};

/// Adds --days --device-hours --usd --mwh --price --joules.
void add_budget_options(CLI::App&, BudgetOptions&, const std::string& days_default);

/// What the options ask for.
struct Budgets {
  BudgetUnit unit = BudgetUnit::days;
  std::vector<double> amounts;  ///< empty: the study's days
  DeviceHours hours;

  /// Windows [days] of a cluster at a number of nodes, one per amount.
  std::vector<double> days(const BudgetTable&, const std::string& cluster, std::int64_t nodes) const;
};
/// Throws InputError: no numbers, two kinds of budget.
Budgets parse_budgets(const BudgetOptions&);

}  // namespace tessera
