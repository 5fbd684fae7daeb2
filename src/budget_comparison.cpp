// How the optimum moves between the clusters of a table.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/report_parts.hpp"
#include "src/budget_output.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

/// The answers of each cluster, in the order of the table; empty unless there are several, all of one length.
std::vector<std::vector<const BudgetAnswer*>> by_cluster(const std::vector<BudgetAnswer>& answers) {
  std::vector<std::vector<const BudgetAnswer*>> out;
  for (const auto& a : answers) {
    if (out.empty() || out.back().front()->cluster != a.cluster) out.emplace_back();
    out.back().push_back(&a);
  }
  const bool alike =
      std::all_of(out.begin(), out.end(), [&](const auto& c) { return c.size() == out.front().size(); });
  return out.size() > 1 && alike ? out : std::vector<std::vector<const BudgetAnswer*>>{};
}

/// What the first cluster's choice reaches on another.
struct Transfer {
  double gap = 0;     ///< its predicted loss above that of the own choice [nats]
  bool same = false;  ///< it is the own choice
  bool tied = false;  ///< it is a near tie of the own choice
};
/// Nothing where it cannot be trained there, or nothing can.
std::optional<Transfer> transfer(const BudgetAnswer& first, const BudgetAnswer& here) {
  if (first.candidates.empty() || here.candidates.empty()) return std::nullopt;
  const std::uint32_t wanted = first.candidates[first.choice()].architecture;
  const auto at = std::find_if(here.candidates.begin(), here.candidates.end(),
                               [&](const BudgetCandidate& c) { return c.architecture == wanted; });
  if (at == here.candidates.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(at - here.candidates.begin());
  const bool drawn = here.has_certainty && index < here.considered;
  return Transfer{at->loss - here.candidates[here.choice()].loss, index == here.choice(),
                  drawn && here.decision.verdicts[index].tied};
}

std::string name_of(const BudgetTable& t, std::uint32_t architecture) {
  return reporting::short_name(t.architectures[architecture]);
}

std::string verdict_text(const std::optional<Transfer>& moved) {
  if (!moved) return "cannot be trained here";
  if (moved->same) return "the same";
  return fmt::format("{:+.4f} nats, {}", moved->gap, moved->tied ? "a near tie" : "worse");
}

/// What the budgets of a position cost, in one line; "" where they have no price.
std::string costs_text(const std::vector<std::vector<const BudgetAnswer*>>& clusters, std::size_t position,
                       const DeviceHours& hours) {
  std::vector<double> costs;
  for (const auto& list : clusters)
    if (const auto usd = device_hour(hours, list[position]->cluster, list[position]->device).usd)
      costs.push_back(*usd * list[position]->device_hours / 1e6);
  if (costs.empty()) return "";
  const auto [low, high] = std::minmax_element(costs.begin(), costs.end());
  return *high <= *low * (1 + 1e-9) ? fmt::format("{:.4g} million USD each\n", *low)
                                    : fmt::format("{:.4g} to {:.4g} million USD\n", *low, *high);
}

}  // namespace

Json comparison_json(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                     const DeviceHours& hours) {
  Json out = Json::array();
  const auto clusters = by_cluster(answers);
  for (std::size_t i = 0; !clusters.empty() && i < clusters.front().size(); ++i) {
    const BudgetAnswer& first = *clusters.front()[i];
    Json rows = Json::array();
    for (const auto& list : clusters) {
      const BudgetAnswer& a = *list[i];
      Json row{{"cluster", a.cluster}, {"nodes", a.nodes}, {"devices", a.devices}, {"days", a.days}};
      const DeviceHour hour = device_hour(hours, a.cluster, a.device);
      row["usd"] = hour.usd ? Json(*hour.usd * a.device_hours) : Json(nullptr);
      for (const char* key : {"name", "split", "sparsity", "tokens", "mfu", "loss", "first_choice"})
        row[key] = nullptr;
      if (!a.candidates.empty()) {
        const BudgetCandidate& c = a.candidates[a.choice()];
        row["name"] = name_of(t, c.architecture);
        row["split"] = t.architectures[c.architecture].split;
        row["sparsity"] = t.counts[c.architecture].sparsity();
        row["tokens"] = c.tokens;
        row["mfu"] = c.mfu;
        row["loss"] = c.loss;
      }
      if (const auto moved = transfer(first, a))
        row["first_choice"] = {
            {"loss_gap_nats", moved->gap}, {"same", moved->same}, {"near_tie", moved->tied || moved->same}};
      rows.push_back(std::move(row));
    }
    out.push_back({{"first", first.candidates.empty()
                                 ? Json(nullptr)
                                 : Json(name_of(t, first.candidates[first.choice()].architecture))},
                   {"clusters", rows}});
  }
  return out;
}

std::string comparison_text(const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                            const DeviceHours& hours) {
  const auto clusters = by_cluster(answers);
  if (clusters.empty()) return "";
  std::size_t stays = 0, moves = 0;
  std::string out =
      fmt::format("\nHow the optimum moves\n{:<18} {:>7} {:>6} {:<16} {:>6} {:>5} {:>6} {}\n", "cluster",
                  "devices", "days", "choice", "D 1e12", "MFU %", "loss", "the first's choice here");
  for (std::size_t i = 0; i < clusters.front().size(); ++i) {
    const BudgetAnswer& first = *clusters.front()[i];
    out += costs_text(clusters, i, hours);
    for (const auto& list : clusters) {
      const BudgetAnswer& a = *list[i];
      out += fmt::format("{:<18.18} {:>7} {:>6.4g} ", a.cluster, a.devices, a.days);
      if (a.candidates.empty()) {
        out += "nothing to train\n";
        continue;
      }
      const BudgetCandidate& c = a.candidates[a.choice()];
      const auto moved = transfer(first, a);
      out += fmt::format("{:<16.16} {:>6.3f} {:>5.1f} {:>6.4f} {}\n", name_of(t, c.architecture),
                         c.tokens / 1e12, 100 * c.mfu, c.loss, &a == &first ? "" : verdict_text(moved));
      if (&a != &first) ++(moved && (moved->same || moved->tied) ? stays : moves);
    }
  }
  return out + fmt::format("the first cluster's choice is the same or a near tie in {} of {} comparisons\n",
                           stays, stays + moves);
}

}  // namespace tessera
