// What table and lookup say to a person.
#include <fmt/format.h>

#include <algorithm>

#include "io/budget_terms.hpp"
#include "io/report_parts.hpp"
#include "src/budget_output.hpp"
#include "src/sweep_output.hpp"

namespace tessera {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;

std::string name_of(const BudgetTable& t, std::uint32_t architecture) {
  return reporting::short_name(t.architectures[architecture]);
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

}  // namespace

std::vector<std::string> price_notes(const std::vector<BudgetAnswer>& answers, const DeviceHours& hours) {
  std::vector<std::string> notes;
  for (const auto& a : answers)
    for (const auto& note : device_hour(hours, a.cluster, a.device).notes)
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return notes;
}

std::string draws_text(const BudgetTable& t) {
  const std::int64_t members = law_member_count(t), draws = t.draws.members * t.draws.replicates;
  if (members == 1)
    return fmt::format("{} draws of the step-time error; law {} has no ensemble: its error is in none", draws,
                       t.law.name);
  return fmt::format("{} draws, seed {}, over {} members of law {}", draws, t.draws.seed, members,
                     t.law.name);
}

std::string budget_text(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                        const DeviceHours& hours) {
  const bool priced = hours.usd.given();
  std::string out = t.title.empty() ? "" : t.title + "\n";
  out += fmt::format("{:>5} {:>6} {:>8} {:<15} {:>6} {:>6} {:>5} {:>6} {:>5} {:>5} {:>7} {}\n", "nodes",
                     "days", priced ? "cost" : "budget", "choice", "D", "loss", "sd", "P best", "ties",
                     "90 %", "regret", "lowest loss");
  out += fmt::format("{:>5} {:>6} {:>8} {:<15} {:>6} {:>6} {:>5} {:>6} {:>5} {:>5} {:>7}\n", "", "",
                     priced ? "1e6 USD" : "1e3 h", "", "1e12", "nats", "nats", "%", "", "set", "nats");
  bool between = false;
  std::string cluster;
  for (const auto& a : answers) {
    if (cluster_names(t).size() > 1 && a.cluster != cluster) out += (cluster = a.cluster) + "\n";
    const auto usd = device_hour(hours, a.cluster, a.device).usd;
    const double budget = priced ? a.device_hours * usd.value_or(0) / 1e6 : a.device_hours / 1e3;
    out += fmt::format("{:>4}{} {:>6.4g} {:>8.4g} ", a.nodes, a.interpolated ? '*' : ' ', a.days, budget);
    between = between || a.interpolated;
    if (a.candidates.empty()) {
      out += fmt::format("nothing to train: {} do not fit, {} are above a limit, {} see too few tokens\n",
                         a.nothing_fits, a.over_limits, a.too_few_tokens);
      continue;
    }
    const BudgetCandidate& c = a.candidates[a.choice()];
    out += fmt::format("{:<15.15} {:>6.3f} {:>6.4f} ", name_of(t, c.architecture), c.tokens / 1e12, c.loss);
    const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
    out += fmt::format("{:>5.3f} {:>6.1f} {:>5} {:>5} {:>7.4f} {:.15}\n", a.loss_sd, 100 * v.best,
                       a.decision.near_ties, a.decision.ninety_set.size(), v.regret,
                       name_of(t, a.candidates.front().architecture));
  }
  if (!answers.empty())
    for (const auto& line : terms_text(answers.front().terms)) out += line + "\n";
  out += "choice: least expected regret over " + draws_text(t) + "\nties and 90 % set count the choice\n";
  if (between)
    out +=
        "*: between swept node counts: MFU and goodput interpolated in log(nodes), plans of the nearer "
        "size\n";
  for (const auto& note : price_notes(answers, hours)) out += note + "\n";
  return out;
}

std::string budget_details(const BudgetTable& t, const BudgetAnswer& a, const DeviceHours& hours) {
  const DeviceHour hour = device_hour(hours, a.cluster, a.device);
  std::string out = fmt::format("{}, {} node{} ({} x {}), {:g} days: {}\n", a.cluster, a.nodes,
                                a.nodes == 1 ? "" : "s", a.devices, a.device, a.days, cost_text(a, hour));
  if (a.interpolated)
    out += fmt::format(
        "between {} and {} swept nodes: MFU and goodput interpolated in log(nodes), plans of {} nodes\n",
        a.low_nodes, a.high_nodes, a.plan_nodes);
  for (const auto& line : terms_text(a.terms)) out += line + "\n";
  out += fmt::format(
      "{} architectures; of {} nothing fits, {} are above a limit, {} see too few tokens, {} have no loss\n",
      a.candidates.size(), a.nothing_fits, a.over_limits, a.too_few_tokens, a.outside_law);
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
  if (const ServingLoad& load = a.terms.serving.load; load.stated()) {
    const ServingMemory m = serving_memory(t.architectures[c.architecture], n, load);
    out += fmt::format("  at inference {:.1f} GB: weights {:.1f}, caches {:.1f}\n", m.total() / 1e9, m.weights / 1e9,
                       m.caches / 1e9);
  }
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
    out += details_of_other(t, law_member_count(t) > 1 ? "law alone" : "law alone (no ensemble)", a.law_only);
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
  for (const auto& text : a.warnings)  // some say themselves whether they are a note or a warning
    out += (text.rfind("note: ", 0) == 0 || text.rfind("warning: ", 0) == 0 ? "" : "warning: ") + text + "\n";
  for (const auto& note : hour.notes) out += note + "\n";
  return out;
}

}  // namespace tessera
