// The rows of a table as CSV, units in the names of the columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "io/csv_table.hpp"
#include "io/report_parts.hpp"
#include "src/budget_output.hpp"
#include "src/sweep_output.hpp"

namespace tessera {
namespace {

std::string name_of(const BudgetTable& t, std::uint32_t architecture) {
  return reporting::short_name(t.architectures[architecture]);
}

/// Classes that any answer has, with the prefix of their columns.
std::vector<std::pair<double, std::string>> class_columns(
    const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
    std::vector<BudgetClass> (*classes)(const BudgetTable&, const BudgetAnswer&), const std::string& name) {
  std::map<double, std::string> all;
  for (const auto& a : answers)
    for (const BudgetClass& c : classes(t, a))
      all.emplace(c.low, c.low == c.high ? fmt::format("{}_{:g}", name, c.low)
                                         : fmt::format("{}_{:g}_{:g}", name, c.low, c.high));
  return {all.begin(), all.end()};
}

std::string class_fields(const BudgetTable& t, const BudgetAnswer& a, const std::vector<BudgetClass>& classes,
                         const std::vector<std::pair<double, std::string>>& columns) {
  std::string out;
  for (const auto& [low, name] : columns) {
    const auto at =
        std::find_if(classes.begin(), classes.end(), [low = low](const auto& c) { return c.low == low; });
    if (at == classes.end()) {
      out += ",,,";
      continue;
    }
    const BudgetCandidate& c = a.candidates[at->candidate];
    out += fmt::format(",{},{},{}", csv_field(name_of(t, c.architecture)), c.loss, at->probability);
  }
  return out;
}

}  // namespace

std::string budget_csv(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                       const DeviceHours& hours) {
  std::string out =
      "cluster,device,nodes,devices,days,device_hours,usd,joules,interpolated,name,non_embedding_total,non_"
      "embedding_active,"
      "sparsity,split,plan,step_seconds,mfu,goodput,tokens,tokens_cut,loss_nats,loss_sd_nats,probability_"
      "best,near_ties,"
      "ninety_set,regret_nats,nominal_best,nominal_best_loss_nats,without_cap,without_cap_loss_nats,"
      "without_cap_probability_best,total_over_largest_run,tokens_over_largest_run,serving_weights_bytes,"
      "serving_caches_bytes";
  const auto splits = class_columns(t, answers, best_by_split, "split");
  const auto bands = class_columns(t, answers, best_by_sparsity, "sparsity");
  for (const auto* columns : {&splits, &bands})
    for (const auto& [low, name] : *columns)
      out += fmt::format(",{0},{0}_loss_nats,{0}_probability_best", name);
  out += "\n";
  const auto money = [](const std::optional<double>& each, double device_hours) {
    return each ? fmt::format("{}", device_hours * *each) : std::string();
  };
  for (const auto& a : answers) {
    const DeviceHour hour = device_hour(hours, a.cluster, a.device);
    out += fmt::format("{},{},{},{},{},{},{},{},{}", csv_field(a.cluster), csv_field(a.device), a.nodes,
                       a.devices, a.days, a.device_hours, money(hour.usd, a.device_hours),
                       money(hour.joules, a.device_hours), a.interpolated);
    if (a.candidates.empty()) {
      out += std::string(26 + 3 * (splits.size() + bands.size()), ',') + "\n";
      continue;
    }
    const BudgetCandidate &c = a.candidates[a.choice()], &nominal = a.candidates.front();
    const ParameterCount& n = t.counts[c.architecture];
    out += fmt::format(",{},{},{},{},{},{},{},{},{},{},{},{}", csv_field(name_of(t, c.architecture)),
                       n.non_embedding_total, n.non_embedding_active, n.sparsity(),
                       t.architectures[c.architecture].split, csv_field(short_plan(c.plan)), c.step_seconds,
                       c.mfu, c.goodput, c.tokens, c.cut, c.loss);
    const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
    out += fmt::format(",{},{},{},{},{},{},{}", a.loss_sd, v.best, a.decision.near_ties,
                       a.decision.ninety_set.size(), v.regret, csv_field(name_of(t, nominal.architecture)),
                       nominal.loss);
    if (a.without_cap)
      out += fmt::format(",{},{},{}", csv_field(name_of(t, a.without_cap->architecture)), a.without_cap->loss,
                         a.without_cap->probability);
    else
      out += ",,,";
    const ServingLoad& load = a.terms.serving.load;
    const ServingMemory served = serving_memory(t.architectures[c.architecture], n, load);
    out += fmt::format(",{},{}", a.total_multiple, a.tokens_multiple);
    out += load.stated() ? fmt::format(",{},{}", served.weights, served.caches) : ",,";
    out += class_fields(t, a, best_by_split(t, a), splits) +
           class_fields(t, a, best_by_sparsity(t, a), bands) + "\n";
  }
  return out;
}

}  // namespace tessera
