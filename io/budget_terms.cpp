#include "io/budget_terms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

double not_negative(const nlohmann::json& json) {
  const double value = json.get<double>();
  if (!std::isfinite(value) || value < 0)
    throw std::invalid_argument("terms that are negative or not finite");
  return value;
}

std::optional<double> limit_from(const nlohmann::json& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(not_negative(json));
}

std::int64_t whole(const nlohmann::json& json, std::int64_t least) {
  const auto value = json.get<std::int64_t>();
  if (value < least) throw std::invalid_argument("terms that are out of range");
  return value;
}

}  // namespace

Json terms_json(const BudgetTerms& terms) {
  const auto limit = [](const std::optional<double>& most) { return most ? Json(*most) : Json(nullptr); };
  const ServingLimits& s = terms.serving;
  return {{"spare_nodes", terms.spare_nodes},
          {"stopped_days", terms.stopped_days},
          {"max_total_parameters", limit(s.most_total)},
          {"max_active_parameters", limit(s.most_active)},
          {"max_serving_bytes", limit(s.most_memory)},
          {"weight_bytes", s.load.weight_bytes},
          {"cache_bytes", s.load.cache_bytes},
          {"state_bytes", s.load.state_bytes},
          {"serving_context", s.load.context},
          {"serving_batch", s.load.batch}};
}

BudgetTerms terms_from_json(const nlohmann::json& json) {
  BudgetTerms out;
  out.spare_nodes = whole(json.at("spare_nodes"), 0);
  out.stopped_days = not_negative(json.at("stopped_days"));
  ServingLimits& s = out.serving;
  s.most_total = limit_from(json.at("max_total_parameters"));
  s.most_active = limit_from(json.at("max_active_parameters"));
  s.most_memory = limit_from(json.at("max_serving_bytes"));
  s.load = {not_negative(json.at("weight_bytes")), not_negative(json.at("cache_bytes")),
            not_negative(json.at("state_bytes")), whole(json.at("serving_context"), 0),
            whole(json.at("serving_batch"), 1)};
  return out;
}

Json serving_json(const Architecture& a, const ParameterCount& count, const ServingLoad& load) {
  if (!load.stated()) return nullptr;
  const ServingMemory memory = serving_memory(a, count, load);
  return {
      {"weights_bytes", memory.weights}, {"caches_bytes", memory.caches}, {"total_bytes", memory.total()}};
}

std::vector<std::string> terms_text(const BudgetTerms& terms) {
  std::vector<std::string> out;
  if (terms.spare_nodes > 0 || terms.stopped_days > 0)
    out.push_back(fmt::format("paid for, not trained on: {} spare node{}, {:g} day{} of planned stops",
                              terms.spare_nodes, terms.spare_nodes == 1 ? "" : "s", terms.stopped_days,
                              terms.stopped_days == 1 ? "" : "s"));
  const ServingLimits& s = terms.serving;
  std::vector<std::string> limits;
  if (s.most_total) limits.push_back(fmt::format("{:g} B parameters", *s.most_total / 1e9));
  if (s.most_active) limits.push_back(fmt::format("{:g} B active", *s.most_active / 1e9));
  if (s.most_memory) limits.push_back(fmt::format("{:g} GB of memory", *s.most_memory / 1e9));
  if (!limits.empty()) out.push_back(fmt::format("limits for serving: {}", fmt::join(limits, ", ")));
  if (s.load.stated() && s.load.context > 0)
    out.push_back(
        fmt::format("served with {:g} B a weight, {:g} B an element of the caches of {} x {} tokens",
                    s.load.weight_bytes, s.load.cache_bytes, s.load.batch, s.load.context));
  else if (s.load.stated())
    out.push_back(fmt::format("served with {:g} B a weight; no context is given, so caches are not counted",
                              s.load.weight_bytes));
  return out;
}

}  // namespace tessera
