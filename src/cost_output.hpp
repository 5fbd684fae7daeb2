// A step cost as JSON and as a table for a person: shared by plan, explain and replay.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tessera/step_cost.hpp"

namespace tessera {

/// The parts of a step by name, in the order in which they are printed [s].
std::vector<std::pair<std::string, double>> time_parts(const TimeBreakdown&);
/// The parts of a stage's memory by name [B].
std::vector<std::pair<std::string, double>> memory_parts(const StageMemory&);

/// `step_seconds time{} memory_bytes memory_with_reserve_bytes capacity_bytes fits heaviest_stage memory{stages[]}`.
nlohmann::ordered_json cost_json(const StepCost&);
void print_cost(const StepCost&);

}  // namespace tessera
