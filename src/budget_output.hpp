// What table and lookup say of a budget: a row of rows[], a CSV file, and text for a person.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/budget_table.hpp"

namespace tessera {

/// One object of rows[]. Where nothing can be trained, `architecture` and what follows from it are null;
/// without certainty its keys are null and `architecture` is the one of lowest predicted loss.
nlohmann::ordered_json budget_row_json(const BudgetTable&, const BudgetAnswer&, const DeviceHour&);

/// A header line and a line per answer; the best of each class of any answer has columns of its own.
std::string budget_csv(const BudgetTable&, const std::vector<BudgetAnswer>&, const DeviceHours&);

/// At most 100 columns wide: a line per budget, then what the lines stand on.
std::string budget_text(const BudgetTable&, const std::vector<BudgetAnswer>&, const DeviceHours&);
/// Everything about one budget.
std::string budget_details(const BudgetTable&, const BudgetAnswer&, const DeviceHours&);

/// How the optimum moves from cluster to cluster, and where it does not: of each budget (position among a
/// cluster's rows) the choice of each cluster, and what the first cluster's choice would reach there. Empty
/// where the rows are of one cluster, or the clusters have different numbers of rows.
nlohmann::ordered_json comparison_json(const BudgetTable&, const std::vector<BudgetAnswer>&,
                                       const DeviceHours&);
std::string comparison_text(const BudgetTable&, const std::vector<BudgetAnswer>&, const DeviceHours&);

/// What the certainty is drawn over.
std::string draws_text(const BudgetTable&);

/// Date, source and weakness of prices and powers that come from presets, each once.
std::vector<std::string> price_notes(const std::vector<BudgetAnswer>&, const DeviceHours&);

/// "16,32,64" -> numbers. Throws InputError naming the option: no number, not whole, not positive.
std::vector<std::int64_t> parse_counts(const std::string& list, const std::string& option);
/// "10,20.5" -> numbers, positive and finite. Throws InputError naming the option.
std::vector<double> parse_amounts(const std::string& list, const std::string& option);

}  // namespace tessera
