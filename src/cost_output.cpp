#include "src/cost_output.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/units.hpp"

namespace tessera {
namespace {

constexpr double kRounding = 1e-9;  // of a step: a difference of two times that is nothing


using Json = nlohmann::ordered_json;

const std::pair<const char*, double TimeBreakdown::*> kTimes[] = {
    {"gemm", &TimeBreakdown::gemm}, {"experts", &TimeBreakdown::experts}, {"attention", &TimeBreakdown::attention},
    {"pointwise", &TimeBreakdown::pointwise}, {"casts", &TimeBreakdown::casts}, {"head", &TimeBreakdown::head},
    {"recompute", &TimeBreakdown::recompute}, {"tensor_parallel", &TimeBreakdown::tensor_parallel},
    {"context_parallel", &TimeBreakdown::context_parallel}, {"expert_exchange", &TimeBreakdown::expert_exchange},
    {"point_to_point", &TimeBreakdown::point_to_point}, {"data_parallel", &TimeBreakdown::data_parallel}, {"host", &TimeBreakdown::host},
    {"ramp", &TimeBreakdown::ramp}, {"optimizer", &TimeBreakdown::optimizer}, {"fixed", &TimeBreakdown::fixed}, {"jitter", &TimeBreakdown::jitter}};
const std::pair<const char*, double StageMemory::*> kBytes[] = {
    {"weights", &StageMemory::weights}, {"gradients", &StageMemory::gradients}, {"optimizer", &StageMemory::optimizer},
    {"activations", &StageMemory::activations}, {"wgrad_buffers", &StageMemory::wgrad_buffers}, {"working_set", &StageMemory::working_set},
    {"point_to_point", &StageMemory::point_to_point}, {"constant", &StageMemory::constant}};

}  // namespace

std::vector<std::pair<std::string, double>> time_parts(const TimeBreakdown& t) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, member] : kTimes) out.emplace_back(name, t.*member);
  return out;
}

std::vector<std::pair<std::string, double>> memory_parts(const StageMemory& m) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, member] : kBytes) out.emplace_back(name, m.*member);
  return out;
}

Json cost_json(const StepCost& cost) {
  Json out;
  out["step_seconds"] = cost.step_seconds;
  for (const auto& [name, seconds] : time_parts(cost.time)) out["time"][name] = seconds;
  out["memory_bytes"] = cost.memory_bytes;
  out["memory_with_reserve_bytes"] = cost.memory_with_reserve_bytes;
  out["capacity_bytes"] = cost.capacity_bytes;
  out["fits"] = cost.fits();
  out["heaviest_stage"] = cost.heaviest_stage;
  out["expected_error"] = cost.expected_error;
  auto& stages = out["memory"]["stages"] = Json::array();
  for (const auto& stage : cost.stages) {
    Json item;
    for (const auto& [name, bytes] : memory_parts(stage)) item[name] = bytes;
    item["layers"] = stage.layers;
    item["in_flight"] = stage.in_flight;
    item["sum"] = stage.sum();
    stages.push_back(std::move(item));
  }
  return out;
}

void print_cost(const StepCost& cost) {
  fmt::print("step {:.6g} s (expect an error of about {:.0f} %), of which\n", cost.step_seconds, 100 * cost.expected_error);
  for (const auto& [name, seconds] : time_parts(cost.time))
    if (std::abs(seconds) > kRounding * cost.step_seconds) fmt::print("  {:<18} {:>10.4f} s  {:>5.1f} %\n", name, seconds, 100 * seconds / cost.step_seconds);
  const StageMemory& stage = cost.stages[static_cast<std::size_t>(cost.heaviest_stage)];
  fmt::print("memory {:.3f} GiB on stage {} (the heaviest of {}), {:.3f} GiB with reserve, {:.3f} GiB available: {}\n", cost.memory_bytes / kGiB,
             cost.heaviest_stage, cost.stages.size(), cost.memory_with_reserve_bytes / kGiB, cost.capacity_bytes / kGiB,
             cost.fits() ? "fits" : fmt::format("does not fit, by {:.3f} GiB", (cost.memory_with_reserve_bytes - cost.capacity_bytes) / kGiB));
  for (const auto& [name, bytes] : memory_parts(stage))
    if (bytes > 0) fmt::print("  {:<18} {:>10.3f} GiB\n", name, bytes / kGiB);
}

}  // namespace tessera
