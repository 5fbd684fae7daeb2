#include "src/budget_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "io/architecture_fields.hpp"
#include "io/csv_table.hpp"
#include "io/report_parts.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kJoulesPerKwh = 3.6e6;

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

/// Best candidate of each class, classes ascending; the class' P(best) is the sum over its members.
template <class Key>
Json classes_json(const BudgetTable& t, const BudgetAnswer& a, const Key& key) {
  std::map<double, std::pair<std::size_t, double>> best;  // class -> candidate of lowest loss, P of the class
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    const auto at =
        best.try_emplace(key(a.candidates[i]), i, 0.0).first;  // ascending loss: the first is the best
    if (a.has_certainty && i < a.considered) at->second.second += a.decision.verdicts[i].best;
  }
  Json out = Json::array();
  for (const auto& [value, entry] : best) {
    Json row = candidate_json(t, a, entry.first);
    row["class"] = value;
    row["class_probability_best"] = a.has_certainty ? Json(entry.second) : Json(nullptr);
    out.push_back(std::move(row));
  }
  return out;
}

double split_of(const BudgetTable& t, const BudgetCandidate& c) {
  return t.architectures[c.architecture].split;
}

/// Lower edge of the band of S; below the first edge: the first.
double band_of(const BudgetTable& t, const BudgetCandidate& c) {
  const auto& edges = t.settings.sparsity_bands;
  const auto above = std::upper_bound(edges.begin(), edges.end(), t.counts[c.architecture].sparsity());
  return above == edges.begin() ? edges.front() : *std::prev(above);
}

Json by_split_json(const BudgetTable& t, const BudgetAnswer& a) {
  Json rows = classes_json(t, a, [&](const BudgetCandidate& c) { return split_of(t, c); });
  for (Json& row : rows) row["split"] = row["class"], row.erase("class");
  return rows;
}

Json by_sparsity_json(const BudgetTable& t, const BudgetAnswer& a) {
  Json rows = classes_json(t, a, [&](const BudgetCandidate& c) { return band_of(t, c); });
  const auto& edges = t.settings.sparsity_bands;
  for (Json& row : rows) {
    const auto above = std::upper_bound(edges.begin(), edges.end(), row["class"].get<double>());
    row["sparsity_low"] = row["class"];
    row["sparsity_high"] = above == edges.end() ? edges.back() : *above;
    row.erase("class");
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
                          "compressed_spread", "draws", "candidates_drawn", "optimism_nats"})
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
  row["candidates_drawn"] = a.considered;
  row["optimism_nats"] = a.decision.optimism;
}

std::string cost_text(const BudgetAnswer& a, const DeviceHour& hour) {
  std::string out = fmt::format("{:.6g} device-hours", a.device_hours);
  if (hour.usd) out += fmt::format(", {:.4g} million USD", a.device_hours * *hour.usd / 1e6);
  if (hour.joules) out += fmt::format(", {:.4g} MWh", a.device_hours * *hour.joules / kJoulesPerKwh / 1e3);
  return out;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string details_of_other(const BudgetTable& t, const char* what, const OtherChoice& o) {
  return fmt::format("  {:<26} {:<16} {:>7.4f} {:>7} {:>8.4f} {:>6} {:>6}\n", what,
                     name_of(t, o.architecture), o.loss, percent(o.probability), o.regret, o.near_ties,
                     o.ninety);
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

void check(const DeviceHour& hour) {
  for (const auto& [option, value] : {std::pair{"--price", hour.usd}, {"--joules", hour.joules}})
    if (value && (!std::isfinite(*value) || *value <= 0))
      throw InputError(fmt::format("{} {}", option, *value), "a device-hour costs a finite, positive amount",
                       "correct it.");
}

Json budget_row_json(const BudgetTable& t, const BudgetAnswer& a, const DeviceHour& hour) {
  Json row{{"cluster", a.cluster}, {"device", a.device}, {"nodes", a.nodes},
           {"devices", a.devices}, {"days", a.days},     {"device_hours", a.device_hours}};
  if (hour.usd) row["usd"] = a.device_hours * *hour.usd;
  if (hour.joules) row["joules"] = a.device_hours * *hour.joules;
  row["interpolated"] = a.interpolated;
  row["plan_nodes"] = a.plan_nodes;
  row["candidates"] = a.candidates.size();
  row["left_out"] = {
      {"nothing_fits", a.nothing_fits}, {"too_few_tokens", a.too_few_tokens}, {"outside_law", a.outside_law}};
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

std::string budget_csv(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                       const DeviceHour& hour) {
  std::string out =
      "cluster,nodes,devices,days,device_hours,usd,joules,interpolated,name,non_embedding_total,non_"
      "embedding_active,"
      "sparsity,split,plan,step_seconds,mfu,goodput,tokens,tokens_cut,loss_nats,loss_sd_nats,probability_"
      "best,near_ties,"
      "ninety_set,regret_nats,nominal_best,nominal_best_loss_nats,without_cap,without_cap_loss_nats,"
      "without_cap_probability_best,total_over_largest_run,tokens_over_largest_run\n";
  const auto money = [](const std::optional<double>& each, double hours) {
    return each ? fmt::format("{}", hours * *each) : std::string();
  };
  for (const auto& a : answers) {
    out += fmt::format("{},{},{},{},{},{},{},{}", csv_field(a.cluster), a.nodes, a.devices, a.days,
                       a.device_hours, money(hour.usd, a.device_hours), money(hour.joules, a.device_hours),
                       a.interpolated);
    if (a.candidates.empty()) {
      out += std::string(24, ',') + "\n";
      continue;
    }
    const BudgetCandidate &c = a.candidates[a.choice()], &nominal = a.candidates.front();
    const ParameterCount& n = t.counts[c.architecture];
    out +=
        fmt::format(",{},{},{},{},{},{},{},{},{},{},{},{}", csv_field(name_of(t, c.architecture)),
                    n.non_embedding_total, n.non_embedding_active, n.sparsity(), split_of(t, c),
                    csv_field(short_plan(c.plan)), c.step_seconds, c.mfu, c.goodput, c.tokens, c.cut, c.loss);
    const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
    out += fmt::format(",{},{},{},{},{},{},{}", a.loss_sd, v.best, a.decision.near_ties,
                       a.decision.ninety_set.size(), v.regret, csv_field(name_of(t, nominal.architecture)),
                       nominal.loss);
    if (a.without_cap)
      out += fmt::format(",{},{},{}", csv_field(name_of(t, a.without_cap->architecture)), a.without_cap->loss,
                         a.without_cap->probability);
    else
      out += ",,,";
    out += fmt::format(",{},{}\n", a.total_multiple, a.tokens_multiple);
  }
  return out;
}

std::string budget_text(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                        const DeviceHour& hour) {
  std::string out = t.title.empty() ? "" : t.title + "\n";
  out += fmt::format("{:>5} {:>6} {:>8} {:<15} {:>6} {:>6} {:>5} {:>6} {:>5} {:>5} {:>7} {}\n", "nodes",
                     "days", hour.usd ? "cost" : "budget", "choice", "D", "loss", "sd", "P best", "ties",
                     "90 %", "regret", "lowest loss");
  out += fmt::format("{:>5} {:>6} {:>8} {:<15} {:>6} {:>6} {:>5} {:>6} {:>5} {:>5} {:>7}\n", "", "",
                     hour.usd ? "1e6 USD" : "1e3 h", "", "1e12", "nats", "nats", "%", "", "set", "nats");
  bool between = false;
  std::string cluster;
  for (const auto& a : answers) {
    if (cluster_names(t).size() > 1 && a.cluster != cluster) out += (cluster = a.cluster) + "\n";
    const double budget = hour.usd ? a.device_hours * *hour.usd / 1e6 : a.device_hours / 1e3;
    out += fmt::format("{:>4}{} {:>6g} {:>8.4g} ", a.nodes, a.interpolated ? '*' : ' ', a.days, budget);
    between = between || a.interpolated;
    if (a.candidates.empty()) {
      out += fmt::format("nothing to train: {} do not fit, {} see too few tokens\n", a.nothing_fits,
                         a.too_few_tokens);
      continue;
    }
    const BudgetCandidate& c = a.candidates[a.choice()];
    out += fmt::format("{:<15.15} {:>6.3f} {:>6.4f} ", name_of(t, c.architecture), c.tokens / 1e12, c.loss);
    const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
    out += fmt::format("{:>5.3f} {:>6.1f} {:>5} {:>5} {:>7.4f} {:.15}\n", a.loss_sd, 100 * v.best,
                       a.decision.near_ties, a.decision.ninety_set.size(), v.regret,
                       name_of(t, a.candidates.front().architecture));
  }
  out += fmt::format(
      "choice: least expected regret over {} members x {} draws of law {}; ties and 90 % set count it\n",
      t.draws.members, t.draws.replicates, t.law.name);
  if (between)
    out +=
        "*: between swept node counts: MFU and goodput interpolated in log(nodes), plans of the nearer "
        "size\n";
  return out;
}

std::string budget_details(const BudgetTable& t, const BudgetAnswer& a, const DeviceHour& hour) {
  std::string out = fmt::format("{}, {} nodes ({} x {}), {:g} days: {}\n", a.cluster, a.nodes, a.devices,
                                a.device, a.days, cost_text(a, hour));
  if (a.interpolated)
    out += fmt::format(
        "between {} and {} swept nodes: MFU and goodput interpolated in log(nodes), plans of {} nodes\n",
        a.low_nodes, a.high_nodes, a.plan_nodes);
  out += fmt::format("{} architectures; of {} nothing fits, {} see too few tokens, {} have no loss\n",
                     a.candidates.size(), a.nothing_fits, a.too_few_tokens, a.outside_law);
  if (a.candidates.empty()) return out + "nothing to train\n";
  const BudgetCandidate& c = a.candidates[a.choice()];
  const ParameterCount& n = t.counts[c.architecture];
  out += fmt::format("\n{}: {:.2f} B parameters, {:.2f} B active, S {:.4f}\n", name_of(t, c.architecture),
                     static_cast<double>(n.non_embedding_total) / 1e9,
                     static_cast<double>(n.non_embedding_active) / 1e9, n.sparsity());
  out += fmt::format("  plan {} batch {} sequences, step {:.4g} s, MFU {}, goodput {}\n", short_plan(c.plan),
                     c.plan.batch, c.step_seconds, percent(c.mfu), percent(c.goodput));
  out += fmt::format("  {:.4f}e12 tokens{}, predicted loss {:.4f} nats/token\n", c.tokens / 1e12,
                     c.cut ? " (cut to the bound on tokens per active parameter)" : "", c.loss);
  if (a.has_certainty) {
    const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
    out += fmt::format("  loss sd {:.4f} nats; expected regret {:.4f} nats, worth {} of the device-hours\n\n",
                       a.loss_sd, v.regret, percent(a.regret_in_hours));
    out += fmt::format("  {:<26} {:<16} {:>7} {:>7} {:>8} {:>6} {:>6}\n", "uncertainty", "choice", "loss",
                       "P best", "regret", "ties", "90 %");
    out +=
        fmt::format("  {:<26} {:<16} {:>7} {:>7} {:>8} {:>6} {:>6}\n", "", "", "nats", "", "nats", "", "set");
    out += details_of_other(t, "all",
                            {c.architecture, c.tokens, c.loss, v.best, v.regret, a.decision.near_ties,
                             a.decision.ninety_set.size()});
    if (a.without_cap) out += details_of_other(t, "all, without token cap", *a.without_cap);
    out += details_of_other(t, "law alone", a.law_only);
    out +=
        details_of_other(t, fmt::format("step time alone ({})", percent(a.time_error)).c_str(), a.time_only);
    out += details_of_other(t, "form of the law alone", a.form_only);
    out += details_of_other(t, fmt::format("all, MFU spread ^{:g}", t.settings.compressed_slope).c_str(),
                            a.compressed);
    out += fmt::format(
        "  the ties have N_act {:.1f} to {:.1f} B, N_tot {:.0f} to {:.0f} B, S {:.3f} to {:.3f}, G {:g} to "
        "{:g}\n",
        a.tied_active.low / 1e9, a.tied_active.high / 1e9, a.tied_total.low / 1e9, a.tied_total.high / 1e9,
        a.tied_sparsity.low, a.tied_sparsity.high, a.tied_split.low, a.tied_split.high);
  }
  const auto& nominal = a.candidates.front();
  out += fmt::format("  lowest predicted loss: {} at {:.4f} nats/token\n", name_of(t, nominal.architecture),
                     nominal.loss);
  for (const auto& warning : a.warnings) out += "warning: " + warning + "\n";
  return out;
}

std::vector<std::int64_t> parse_nodes(const std::string& list) {
  std::vector<std::int64_t> out;
  for (const auto& item : items(list, "--nodes")) {
    const std::int64_t nodes = parse_whole(item, "--nodes");
    if (nodes <= 0)
      throw InputError(fmt::format("--nodes {}", nodes), "a cluster has nodes",
                       "give positive whole numbers.");
    if (std::find(out.begin(), out.end(), nodes) == out.end()) out.push_back(nodes);
  }
  return out;
}

std::vector<double> parse_days(const std::string& list) {
  std::vector<double> out;
  for (const auto& item : items(list, "--days")) {
    const double days = parse_real(item, "--days");
    if (days <= 0)
      throw InputError(fmt::format("--days {:g}", days), "a window is longer than nothing",
                       "give positive numbers of days.");
    if (std::find(out.begin(), out.end(), days) == out.end()) out.push_back(days);
  }
  return out;
}

}  // namespace tessera
