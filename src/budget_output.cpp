#include "src/budget_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "io/architecture_fields.hpp"
#include "io/budget_terms.hpp"
#include "io/csv_table.hpp"
#include "io/report_parts.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const BudgetTable& t, std::uint32_t architecture) {
  return reporting::short_name(t.architectures[architecture]);
}

/// What a candidate is and reaches; shared by the choice, the nominal best and the best of a class.
Json candidate_json(const BudgetTable& t, const BudgetAnswer& a, std::size_t i) {
  const BudgetCandidate& c = a.candidates[i];
  const ParameterCount& count = t.counts[c.architecture];
  const bool drawn = a.has_certainty && i < a.considered;
  Json out;
  out["name"] = name_of(t, c.architecture);
  out["architecture"] = architecture_json(t.architectures[c.architecture]);
  out.update(count_json(count));
  out["plan"] = plan_json(c.plan);
  out["step_seconds"] = c.step_seconds;
  out["memory_bytes"] = c.memory_bytes > 0 ? Json(c.memory_bytes) : Json(nullptr);
  if (a.terms.serving.load.stated())
    out["serving"] = serving_json(t.architectures[c.architecture], count, a.terms.serving.load);
  out["mfu"] = c.mfu;
  out["goodput"] = c.goodput;
  out["tokens"] = c.tokens;
  out["tokens_per_active_parameter"] = c.tokens / static_cast<double>(count.non_embedding_active);
  out["tokens_cut"] = c.cut;
  out["loss"] = c.loss;
  out["probability_best"] = drawn             ? Json(a.decision.verdicts[i].best)
                            : a.has_certainty ? Json(0.0)
                                              : Json(nullptr);
  out["regret_nats"] = drawn ? Json(a.decision.verdicts[i].regret) : Json(nullptr);
  return out;
}

Json class_json(const BudgetTable& t, const BudgetAnswer& a, const BudgetClass& c) {
  Json row = candidate_json(t, a, c.candidate);
  row["class_probability_best"] = a.has_certainty ? Json(c.probability) : Json(nullptr);
  return row;
}

Json by_split_json(const BudgetTable& t, const BudgetAnswer& a) {
  Json rows = Json::array();
  for (const BudgetClass& c : best_by_split(t, a)) {
    rows.push_back(class_json(t, a, c));
    rows.back()["split"] = c.low;
  }
  return rows;
}

Json by_sparsity_json(const BudgetTable& t, const BudgetAnswer& a) {
  Json rows = Json::array();
  for (const BudgetClass& c : best_by_sparsity(t, a)) {
    rows.push_back(class_json(t, a, c));
    rows.back()["sparsity_low"] = c.low;
    rows.back()["sparsity_high"] = c.high;
  }
  return rows;
}

Json other_json(const BudgetTable& t, const OtherChoice& o) {
  return {{"name", name_of(t, o.architecture)},
          {"tokens", o.tokens},
          {"loss", o.loss},
          {"probability_best", o.probability},
          {"regret_nats", o.regret},
          {"near_ties", o.near_ties},
          {"ninety_set", o.ninety}};
}

Json span_json(const Span& s) { return Json::array({s.low, s.high}); }

Json ninety_json(const BudgetTable& t, const BudgetAnswer& a) {
  Json out = Json::array();
  for (const std::size_t i : a.decision.ninety_set) {
    const CandidateVerdict& v = a.decision.verdicts[i];
    out.push_back({{"name", name_of(t, a.candidates[i].architecture)},
                   {"probability_best", v.best},
                   {"regret_nats", v.regret},
                   {"loss", a.candidates[i].loss},
                   {"paired_nats", Json::array({v.paired_low, v.paired_median, v.paired_high})}});
  }
  return out;
}

void add_certainty_json(const BudgetTable& t, const BudgetAnswer& a, Json& row) {
  for (const char* key : {"probability_best", "near_ties", "regret_nats", "regret_in_device_hours",
                          "loss_mean", "loss_sd", "ninety_set", "ties", "without_token_cap", "by_source",
                          "compressed_spread", "draws", "law_members", "candidates_drawn", "optimism_nats"})
    row[key] = nullptr;
  if (!a.has_certainty) return;
  const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
  row["probability_best"] = v.best;
  row["near_ties"] = a.decision.near_ties;
  row["regret_nats"] = v.regret;
  row["regret_in_device_hours"] = a.regret_in_hours * a.device_hours;
  row["loss_mean"] = v.mean;
  row["loss_sd"] = a.loss_sd;
  row["ninety_set"] = ninety_json(t, a);
  row["ties"] = {{"active", span_json(a.tied_active)},
                 {"total", span_json(a.tied_total)},
                 {"sparsity", span_json(a.tied_sparsity)},
                 {"split", span_json(a.tied_split)},
                 {"experts", span_json(a.tied_experts)}};
  if (a.without_cap) row["without_token_cap"] = other_json(t, *a.without_cap);
  row["by_source"] = {{"law", other_json(t, a.law_only)},
                      {"time", other_json(t, a.time_only)},
                      {"form", other_json(t, a.form_only)}};
  row["compressed_spread"] = other_json(t, a.compressed);
  row["compressed_spread"]["slope"] = t.settings.compressed_slope;
  row["draws"] = a.draws;
  row["law_members"] = law_member_count(t);
  row["candidates_drawn"] = a.considered;
  row["optimism_nats"] = a.decision.optimism;
}

std::vector<std::string> items(const std::string& list, const std::string& option) {
  std::vector<std::string> out;
  std::stringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) out.push_back(part);
  if (out.empty())
    throw InputError(option + " is empty", "a list of numbers is needed",
                     "write for example " + option + " 16,32.");
  return out;
}

}  // namespace

Json budget_row_json(const BudgetTable& t, const BudgetAnswer& a, const DeviceHour& hour) {
  Json row{{"cluster", a.cluster}, {"device", a.device}, {"nodes", a.nodes},
           {"devices", a.devices}, {"days", a.days},     {"device_hours", a.device_hours}};
  if (hour.usd) row["usd"] = a.device_hours * *hour.usd;
  if (hour.joules) row["joules"] = a.device_hours * *hour.joules;
  if (a.terms != BudgetTerms{}) row["terms"] = terms_json(a.terms);
  row["interpolated"] = a.interpolated;
  row["plan_nodes"] = a.plan_nodes;
  row["candidates"] = a.candidates.size();
  row["left_out"] = {{"nothing_fits", a.nothing_fits},
                     {"over_limits", a.over_limits},
                     {"too_few_tokens", a.too_few_tokens},
                     {"outside_law", a.outside_law}};
  for (const char* key :
       {"name", "architecture", "non_embedding", "all", "plan", "step_seconds", "memory_bytes", "mfu",
        "goodput", "tokens", "tokens_per_active_parameter", "tokens_cut", "loss"})
    row[key] = nullptr;
  if (!a.candidates.empty()) row.update(candidate_json(t, a, a.choice()));
  add_certainty_json(t, a, row);
  row["time_error"] = a.time_error;
  row["nominal_best"] = a.candidates.empty() ? Json(nullptr) : candidate_json(t, a, 0);
  row["by_split"] = by_split_json(t, a);
  row["by_sparsity"] = by_sparsity_json(t, a);
  const auto multiple = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  row["extrapolation"] = {{"total", multiple(a.total_multiple)},
                          {"tokens", multiple(a.tokens_multiple)},
                          {"warnings", a.warnings}};
  return row;
}

std::vector<std::int64_t> parse_counts(const std::string& list, const std::string& option) {
  std::vector<std::int64_t> out;
  for (const auto& item : items(list, option)) {
    const std::int64_t count = parse_whole(item, option);
    if (count <= 0)
      throw InputError(fmt::format("{} {}", option, count), "a cluster has nodes",
                       "give positive whole numbers.");
    if (std::find(out.begin(), out.end(), count) == out.end()) out.push_back(count);
  }
  return out;
}

std::vector<double> parse_amounts(const std::string& list, const std::string& option) {
  std::vector<double> out;
  for (const auto& item : items(list, option)) {
    const double amount = parse_real(item, option);
    if (amount <= 0)
      throw InputError(fmt::format("{} {:g}", option, amount), "a budget is more than nothing",
                       "give positive numbers.");
    if (std::find(out.begin(), out.end(), amount) == out.end()) out.push_back(amount);
  }
  return out;
}

}  // namespace tessera
