// The candidates of a budget: plans of a cluster size, or between two, and what the window makes of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/budget_reader.hpp"
#include "io/budget_table_parts.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace budgets {
namespace {

std::string only_cluster(const BudgetTable& table, const std::string& asked) {
  const auto names = cluster_names(table);
  if (asked.empty() && names.size() == 1) return names.front();
  if (asked.empty())
    throw InputError(fmt::format("{} clusters are in the table", names.size()),
                     fmt::format("{}", fmt::join(names, "; ")), "choose one with --cluster.");
  if (std::find(names.begin(), names.end(), asked) == names.end())
    throw InputError("cluster '" + asked + "' is not in the table", "it was not swept",
                     suggestion(asked, names));
  return asked;
}

double between(double low, double high, double share) { return low + share * (high - low); }

}  // namespace

Place find_place(const BudgetTable& table, const std::string& asked, std::int64_t nodes) {
  const std::string cluster = only_cluster(table, asked);
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t low = kNone, high = kNone;
  const auto closer = [&](std::size_t best, const TableCluster& c) {
    if (best == kNone) return true;
    const std::int64_t far = std::abs(table.clusters[best].nodes - nodes), near = std::abs(c.nodes - nodes);
    return near != far ? near < far
                       : c.devices > table.clusters[best].devices;  // of one node count: the fullest
  };
  for (std::size_t i = 0; i < table.clusters.size(); ++i) {
    const TableCluster& c = table.clusters[i];
    if (c.name != cluster) continue;
    if (c.nodes <= nodes && closer(low, c)) low = i;
    if (c.nodes >= nodes && closer(high, c)) high = i;
  }
  if (low == kNone || high == kNone)
    throw InputError(fmt::format("{} nodes are outside the table", nodes),
                     fmt::format("{} was swept at {} nodes, and MFU is not extrapolated", cluster,
                                 fmt::join(node_counts(table, cluster), ", ")),
                     "ask for a number of nodes between those, or sweep more sizes.");
  Place place{low, high, 0};
  if (table.clusters[low].nodes == nodes)
    place.high = low;
  else
    place.share = std::log(static_cast<double>(nodes) / static_cast<double>(table.clusters[low].nodes)) /
                  std::log(static_cast<double>(table.clusters[high].nodes) /
                           static_cast<double>(table.clusters[low].nodes));
  return place;
}

std::vector<TableCandidate> candidates_at(const BudgetTable& table, const Place& place, double devices) {
  std::vector<TableCandidate> low, high, out;
  for (const auto& c : table.candidates) {
    if (c.cluster == place.low) low.push_back(c);
    if (c.cluster == place.high) high.push_back(c);
  }
  if (place.low == place.high) return low;
  const auto before = [](const TableCandidate& a, const TableCandidate& b) {
    return a.architecture != b.architecture ? a.architecture < b.architecture : a.plan.batch < b.plan.batch;
  };
  for (const auto& a : low) {
    const auto b = std::lower_bound(high.begin(), high.end(), a, before);
    if (b == high.end() || before(a, *b)) continue;  // fits at one of the two sizes only
    TableCandidate c = place.share < 0.5 ? a : *b;   // the plan of the nearer size
    c.mfu = between(a.mfu, b->mfu, place.share);
    c.goodput = between(a.goodput, b->goodput, place.share);
    const auto active = static_cast<double>(table.counts[c.architecture].non_embedding_active);
    const double tokens = static_cast<double>(c.plan.batch) * static_cast<double>(table.sequence);
    c.step_seconds = 6.0 * active * tokens / (c.mfu * devices * table.clusters[place.low].peak);
    c.memory_bytes = 0;
    out.push_back(c);
  }
  return out;
}

void rank_candidates(const BudgetTable& table, const std::vector<TableCandidate>& plans,
                     const TokenBounds& bounds, BudgetAnswer& answer) {
  const std::size_t architectures = table.architectures.size();
  std::vector<BudgetCandidate> best(architectures);
  std::vector<double> worth(architectures, 0.0);  // effective tokens of the best batch
  const double seconds = (answer.days - answer.terms.stopped_days) * kSecondsPerDay;
  const auto place = std::find_if(table.clusters.begin(), table.clusters.end(),
                                  [&](const TableCluster& c) { return c.name == answer.cluster; });
  for (const auto& p : plans) {
    const auto active = static_cast<double>(table.counts[p.architecture].non_embedding_active);
    BudgetCandidate c{p.architecture, p.plan, p.step_seconds, p.memory_bytes, p.mfu, p.goodput};
    c.window_tokens =
        window_tokens(place->peak, static_cast<double>(answer.devices), seconds, p.mfu, p.goodput, active);
    const double batch = static_cast<double>(p.plan.batch) * static_cast<double>(table.sequence);
    const double seen = effective_tokens(table.value, c.window_tokens, batch);
    if (seen <= worth[p.architecture]) continue;  // at equal worth the smaller batch stays
    worth[p.architecture] = seen;
    best[p.architecture] = c;
  }
  for (BudgetCandidate& c : best) {
    if (!(c.window_tokens > 0)) {
      ++answer.nothing_fits;
      continue;
    }
    if (above_limits(table.architectures[c.architecture], table.counts[c.architecture],
                     answer.terms.serving)) {
      ++answer.over_limits;
      continue;
    }
    const ParameterCount& count = table.counts[c.architecture];
    const auto bounded =
        bound_tokens(c.window_tokens, static_cast<double>(count.non_embedding_active), bounds);
    c.tokens = bounded.tokens;
    c.cut = bounded.cut;
    const double batch = static_cast<double>(c.plan.batch) * static_cast<double>(table.sequence);
    const double seen = effective_tokens(table.value, c.tokens, batch);
    c.loss = loss(table.law, law_point(table.law, table.architectures[c.architecture], count, seen));
    if (bounded.refused)
      ++answer.too_few_tokens;
    else if (!std::isfinite(c.loss))
      ++answer.outside_law;
    else
      answer.candidates.push_back(c);
  }
  std::stable_sort(answer.candidates.begin(), answer.candidates.end(),
                   [](const BudgetCandidate& a, const BudgetCandidate& b) { return a.loss < b.loss; });
}

}  // namespace budgets

namespace {

/// Largest run of the law's on an axis; 0: unknown.
double largest_run(const Law& law, LawAxis axis) {
  for (const auto& range : law.ranges)
    if (range.axis == axis) return range.high;
  return 0;
}

std::string without(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0 ? text.substr(start.size()) : text;
}

void add_extrapolation(const BudgetTable& table, BudgetAnswer& answer) {
  const BudgetCandidate& c = answer.candidates[answer.choice()];
  const LawPoint point =
      law_point(table.law, table.architectures[c.architecture], table.counts[c.architecture], c.tokens);
  const double total = largest_run(table.law, LawAxis::total),
               tokens = largest_run(table.law, LawAxis::tokens);
  answer.total_multiple = total > 0 ? point.total / total : 0;
  answer.tokens_multiple = tokens > 0 ? point.tokens / tokens : 0;
  answer.warnings = outside_range(table.law, point);
  const auto add = [&](const std::vector<std::string>& notes) {
    answer.warnings.insert(answer.warnings.end(), notes.begin(), notes.end());
  };
  const auto& ranges = table.law.ranges;
  const bool ratio_known = std::any_of(ranges.begin(), ranges.end(), [](const LawRange& r) {
    return r.axis == LawAxis::tokens_per_active;  // then the law itself says where it ends
  });
  for (const auto& note : overtraining_notes(read_overtraining_flags(), c.tokens, point.active))
    if (!ratio_known || note.rfind("warning", 0) == 0) answer.warnings.push_back(note);
  if (table.value.repetition)
    add(repetition_notes(*table.value.repetition, c.tokens, table.value.unique_tokens));
  const double batch = static_cast<double>(c.plan.batch) * static_cast<double>(table.sequence);
  const auto& penalty = table.value.critical_batch;
  auto notes = batch_notes(penalty ? *penalty : read_critical_batch("moe"), c.tokens, batch);
  if (penalty) {
    for (auto& note : notes) answer.warnings.push_back(without(note, "if applied, "));
  } else if (!notes.empty()) {
    for (auto& note : notes) note = without(without(without(note, "strong "), "warning: "), "note: ");
    answer.warnings.push_back(fmt::format("note: the batch penalty is off; {}", fmt::join(notes, "; ")));
  }
}

/// Whole nodes between two sizes; a size that was swept keeps its own devices, which may leave some of a node
/// idle.
std::int64_t devices_at(const BudgetTable& table, const budgets::Place& place, std::int64_t nodes) {
  const TableCluster& low = table.clusters[place.low];
  return place.low != place.high ? nodes * low.node_devices : low.devices;
}

}  // namespace

std::int64_t device_count(const BudgetTable& table, const std::string& cluster, std::int64_t nodes,
                          std::int64_t spare_nodes) {
  const budgets::Place place = budgets::find_place(table, cluster, nodes);
  return devices_at(table, place, nodes) + spare_nodes * table.clusters[place.low].node_devices;
}

BudgetAnswer answer_budget(const BudgetTable& table, const std::string& cluster, std::int64_t nodes,
                           double days, bool certainty, const std::optional<BudgetTerms>& changed,
                           const CertaintySource& known) {
  const BudgetTerms& terms = changed ? *changed : table.terms;
  if (!std::isfinite(days) || days <= 0)
    throw InputError(fmt::format("{} days", days), "a window is a positive number of days",
                     "give for example 20.");
  constexpr double kMostDays = 36525;  // a century, as of a study's windows
  if (days > kMostDays)
    throw InputError(fmt::format("{:g} days", days), "a window is shorter than a century",
                     "give less; check the unit of the budget.");
  if (!(terms.stopped_days < days))
    throw InputError(fmt::format("{} days of planned stops", terms.stopped_days),
                     fmt::format("the window has {}", days), "nothing would be trained.");
  const budgets::Place place = budgets::find_place(table, cluster, nodes);
  const TableCluster &low = table.clusters[place.low], &high = table.clusters[place.high];
  BudgetAnswer answer;
  answer.cluster = low.name;
  answer.device = low.device;
  answer.nodes = nodes;
  answer.interpolated = place.low != place.high;
  answer.devices = devices_at(table, place, nodes);
  answer.days = days;
  answer.terms = terms;
  answer.device_hours = static_cast<double>(answer.devices + terms.spare_nodes * low.node_devices) * days *
                        kSecondsPerDay / 3600.0;
  answer.time_error = std::max(low.time_error, high.time_error);
  answer.low_nodes = low.nodes;
  answer.high_nodes = high.nodes;
  answer.plan_nodes = place.share < 0.5 ? low.nodes : high.nodes;
  const auto plans = budgets::candidates_at(table, place, static_cast<double>(answer.devices));
  BudgetAnswer uncapped = answer;
  budgets::rank_candidates(table, plans, table.bounds, answer);
  if (answer.candidates.empty()) return answer;
  if (certainty && known && known(answer)) {
    answer.has_certainty = answer.stored = true;
  } else if (certainty) {
    if (table.bounds.high) budgets::rank_candidates(table, plans, {table.bounds.low, std::nullopt}, uncapped);
    budgets::add_certainty(table, table.bounds.high ? &uncapped : nullptr, answer);
  }
  add_extrapolation(table, answer);
  return answer;
}

}  // namespace tessera
