// What a planner pins besides size and window, as JSON: in rows, in table files, beside the top of a sweep.
#pragma once
#include <nlohmann/json.hpp>

#include "tessera/budget.hpp"

namespace tessera {

/// Every key, null where there is no limit. Sizes in bytes.
nlohmann::ordered_json terms_json(const BudgetTerms&);
/// The inverse. Throws std::invalid_argument or an exception of the JSON library.
BudgetTerms terms_from_json(const nlohmann::json&);

/// Bytes at inference: weights, caches, both; null where the load is not stated.
nlohmann::ordered_json serving_json(const Architecture&, const ParameterCount&, const ServingLoad&);

/// "1 day of planned stops, 2 spare nodes", "at most 600 GB at inference ..."; a line per kind, none where
/// there is nothing to say.
std::vector<std::string> terms_text(const BudgetTerms&);

}  // namespace tessera
