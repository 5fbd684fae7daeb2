// What table and lookup say of a budget: a row of rows[], a CSV file, and text for a person.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/budget_table.hpp"

namespace tessera {

/// Prices of a device-hour, where given.
struct DeviceHour {
  std::optional<double> usd;     ///< [USD]
  std::optional<double> joules;  ///< [J]
};
/// Throws InputError where a price is not a finite positive number.
void check(const DeviceHour&);

/// One object of rows[]. Where nothing can be trained, `architecture` and what follows from it are null;
/// without certainty its keys are null and `architecture` is the one of lowest predicted loss.
nlohmann::ordered_json budget_row_json(const BudgetTable&, const BudgetAnswer&, const DeviceHour&);

/// A header line and a line per answer.
std::string budget_csv(const BudgetTable&, const std::vector<BudgetAnswer>&, const DeviceHour&);

/// At most 100 columns wide: a line per budget, then what the lines stand on.
std::string budget_text(const BudgetTable&, const std::vector<BudgetAnswer>&, const DeviceHour&);
/// Everything about one budget.
std::string budget_details(const BudgetTable&, const BudgetAnswer&, const DeviceHour&);

/// "16,32,64" -> numbers. Throws InputError naming the option: no number, not whole, not positive.
std::vector<std::int64_t> parse_nodes(const std::string& list);
/// "10,20.5" -> numbers, positive and finite.
std::vector<double> parse_days(const std::string& list);

}  // namespace tessera
