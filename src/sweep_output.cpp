#include "src/sweep_output.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/architecture_fields.hpp"
#include "io/budget_terms.hpp"
#include "io/preset_name.hpp"
#include "io/report_parts.hpp"
#include "io/trust.hpp"
#include "search/shortfall.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kTableRows = 10;

Json refused_json(const Counts& counts) {
  Json out = Json::object();
  for (std::size_t r = 1; r < kReasonCount; ++r)
    if (counts.refused[r] > 0) out[std::string(to_string(static_cast<Reason>(r)))] = counts.refused[r];
  return out;
}

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", whole > 0 ? 100.0 * part / whole : 0.0); }

constexpr std::size_t kNameWidth = 16;

/// A name cut to its column.
std::string column_name(const Architecture& a) {
  const std::string name = reporting::short_name(a);
  return name.size() <= kNameWidth ? name : name.substr(0, kNameWidth - 1) + "~";
}

/// The share of the window that trains, over the rows; nothing where it is all of it.
std::string goodput_text(const Study& study, const SweepResult& result, const EnvelopeCounts& envelope) {
  double least = 1, most = 0;
  for (const TopRow& row : result.top)
    if (row.cluster == envelope.cluster && row.window_days == envelope.window_days) least = std::min(least, row.goodput), most = std::max(most, row.goodput);
  if (least >= 1) return "";
  const std::string name = study.goodput.name.empty() ? "a constant" : study.goodput.name;
  return least == most ? fmt::format("goodput {:.2f} % of the window ({})\n", 100 * least, name)
                       : fmt::format("goodput {:.2f} to {:.2f} % of the window ({})\n", 100 * least, 100 * most, name);
}

std::string table_of(const Study& study, const SweepResult& result, const EnvelopeCounts& envelope) {
  const Cluster& cluster = study.clusters[envelope.cluster];
  std::string out = fmt::format("\n{}: {} node{} ({} x {}), {:g} days\n", cluster.name, nodes_of(cluster),
                                nodes_of(cluster) == 1 ? "" : "s", cluster.devices, device_title(cluster.device.name), envelope.window_days);
  out += goodput_text(study, result, envelope);
  const std::string limited =
      envelope.over_limits > 0 ? fmt::format(" {} are above a limit for serving,", grouped(envelope.over_limits)) : "";
  out += fmt::format("{} architectures ranked; of {} nothing fits,{} {} see too few tokens\n", grouped(envelope.ranked),
                     grouped(envelope.nothing_fits), limited, grouped(envelope.too_few_tokens));
  if (envelope.outside_law > 0) out += fmt::format("{} without a value of the law\n", grouped(envelope.outside_law));
  if (envelope.ranked == 0) return out;
  out += fmt::format("{:>2} {:>6} {:>5} {:>6} {:>5} {:>5} {:>6} {:>5} {:<16} {}\n", "#", "loss", "MFU", "N_tot", "N_act",
                     "D", "step", "mem.", "architecture", "plan");
  out += fmt::format("{:>2} {:>6} {:>5} {:>6} {:>5} {:>5} {:>6} {:>5} {:<16} {}\n", "", "nats", "%", "1e9", "1e9", "1e12",
                     "s", "GiB", "", "(degrees above 1; mb: sequences)");
  std::size_t rows = 0;
  std::string whole;  // of names that were cut
  for (const TopRow& row : result.top) {
    if (row.cluster != envelope.cluster || row.window_days != envelope.window_days) continue;
    if (++rows > kTableRows) break;
    const ParameterCount& n = study.counts[row.architecture];
    std::string plan = short_plan(row.plan);
    if (study.batches.size() > 1) plan = fmt::format("B {} ", row.plan.batch) + plan;
    out += fmt::format("{:>2} {:>6.4f} {:>5.2f} {:>6.1f} {:>5.1f} {:>5.2f} {:>6.2f} {:>5.1f} {:<16} {}\n", row.rank, row.loss,
                       100.0 * row.mfu, static_cast<double>(n.non_embedding_total) / 1e9,
                       static_cast<double>(n.non_embedding_active) / 1e9, row.tokens / 1e12, row.step_seconds,
                       row.memory_bytes / kGiB, column_name(study.architectures[row.architecture]), plan);
    const std::string name = reporting::short_name(study.architectures[row.architecture]);
    if (name.size() > kNameWidth) whole += fmt::format("{:>2} {}\n", row.rank, name);
  }
  if (!whole.empty()) out += "architectures whose names were cut (~), by #\n" + whole;
  return out;
}

}  // namespace

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string signature_text(std::uint64_t signature) { return fmt::format("{:016x}", signature); }

std::string short_plan(const Plan& p) {
  std::string out;
  const auto add = [&out](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  const auto degree = [&](const char* name, int value) {
    if (value > 1) add(fmt::format("{}{}", name, value));
  };
  degree("tp", p.tp);
  degree("cp", p.cp);
  degree("pp", p.pp);
  degree("ep", p.ep);
  degree("etp", p.etp);
  degree("v", p.virtual_stages);
  add(fmt::format("mb{}", p.micro_batch));
  if (p.zero != 1) add(fmt::format("z{}", p.zero));
  if (p.recompute == Recompute::selective) add("sel");
  if (p.recompute == Recompute::super_selective) add("super");
  if (p.recompute == Recompute::full) add("full");
  if (p.schedule == Schedule::zb_h1 || p.schedule == Schedule::dualpipe) add(std::string(to_string(p.schedule)));
  if (p.precision != Precision::bf16) add(std::string(to_string(p.precision)));
  return out;
}

Json plan_json(const Plan& p) {
  return {{"batch", p.batch},
          {"tp", p.tp},
          {"cp", p.cp},
          {"pp", p.pp},
          {"dp", p.dp},
          {"ep", p.ep},
          {"etp", p.etp},
          {"virtual_stages", p.virtual_stages},
          {"micro_batch", p.micro_batch},
          {"recompute", to_string(p.recompute)},
          {"zero", p.zero},
          {"schedule", to_string(p.schedule)},
          {"precision", to_string(p.precision)},
          {"optimizer", to_string(p.optimizer)}};
}

Json top_row_json(const Study& study, const TopRow& row) {
  const Cluster& cluster = study.clusters[row.cluster];
  Json out;
  out["rank"] = row.rank;
  out["window_days"] = row.window_days;
  out["architecture"] = architecture_json(study.architectures[row.architecture]);
  out.update(count_json(study.counts[row.architecture]));
  out["cluster"] = {{"name", cluster.name}, {"nodes", nodes_of(cluster)}, {"devices", cluster.devices}};
  out["plan"] = plan_json(row.plan);
  out["id"] = row.id;
  out["step_seconds"] = row.step_seconds;
  out["time"] = {{"compute", row.compute_seconds},
                 {"communication", row.communication_seconds},
                 {"ramp", row.ramp_seconds},
                 {"host", row.host_seconds}};
  out["mfu"] = row.mfu;
  out["memory_bytes"] = row.memory_bytes;
  out["memory_with_reserve_bytes"] = row.memory_with_reserve_bytes;
  if (study.terms.serving.load.stated())
    out["serving"] = serving_json(study.architectures[row.architecture], study.counts[row.architecture], study.terms.serving.load);
  out["goodput"] = row.goodput;
  out["tokens"] = row.tokens;
  out["tokens_cut"] = row.tokens_cut;
  out["tokens_per_active_parameter"] = row.tokens_per_active_parameter;
  out["model_flops"] = row.model_flops;
  out["loss"] = row.loss;
  const Trust trust = trust_in(study.architectures[row.architecture], cluster, row.plan, study.sequence);
  out["expected_error"] = trust.expected_error;
  out["outside_validation"] = trust.outside;
  return out;
}

Json sweep_json(const Study& study, const Space& space, const SweepResult& r) {
  Json out;
  out["title"] = study.title;
  out["architectures"] = r.architectures;
  out["points"] = r.counts.points;
  out["legal"] = space.legal();
  out["evaluations"] = r.counts.evaluations;
  out["feasible"] = r.counts.feasible;
  out["refused"] = refused_json(r.counts);
  out["seconds"] = r.seconds;
  out["evaluations_per_second"] = r.seconds > 0 ? static_cast<double>(r.counts.evaluations) / r.seconds : 0.0;
  out["units"] = {{"total", r.units_total}, {"reused", r.units_reused}, {"done", r.units_done}};
  out["ranks"] = r.ranks;
  out["threads"] = r.threads;
  out["record"] = to_string(study.record);
  out["search"] = to_string(study.search);
  out["interrupted"] = r.interrupted;
  out["signature"] = signature_text(r.signature);
  if (study.terms != BudgetTerms{}) out["terms"] = terms_json(study.terms);
  out["envelopes"] = Json::array();
  for (const EnvelopeCounts& e : r.envelopes)
    out["envelopes"].push_back({{"cluster", study.clusters[e.cluster].name},
                                {"nodes", nodes_of(study.clusters[e.cluster])},
                                {"window_days", e.window_days},
                                {"ranked", e.ranked},
                                {"nothing_fits", e.nothing_fits},
                                {"over_limits", e.over_limits},
                                {"too_few_tokens", e.too_few_tokens},
                                {"outside_law", e.outside_law}});
  out["top"] = Json::array();
  for (const TopRow& row : r.top) out["top"].push_back(top_row_json(study, row));
  return out;
}

std::string sweep_table(const Study& study, const SweepResult& r) {
  const double points = static_cast<double>(r.counts.points), evaluations = static_cast<double>(r.counts.evaluations);
  std::string out;
  if (!study.title.empty()) out += study.title + "\n";
  const double memory = static_cast<double>(r.counts.refused_for(Reason::memory_bound));
  const double time = static_cast<double>(r.counts.refused_for(Reason::time_bound));
  out += fmt::format("{} architectures, {} points: {} refused by a rule, {} by a memory bound,{}\n{} evaluated, of which {} fit ({})\n",
                     grouped(r.architectures), grouped(r.counts.points), percent(points - evaluations - memory - time, points),
                     percent(memory, points), study.search == Search::pruned ? " " + percent(time, points) + " by a time bound," : "",
                     grouped(r.counts.evaluations), grouped(r.counts.feasible),
                     percent(static_cast<double>(r.counts.feasible), evaluations));
  out += fmt::format("{:.2f} s on {} rank{} x {} thread{}: {:.3g} million evaluations/s; {} units, {} reused\nsignature {}\n",
                     r.seconds, r.ranks, r.ranks == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s",
                     r.seconds > 0 ? evaluations / r.seconds / 1e6 : 0.0, grouped(r.units_total), grouped(r.units_reused),
                     signature_text(r.signature));
  for (const auto& line : terms_text(study.terms)) out += line + "\n";
  for (const EnvelopeCounts& envelope : r.envelopes) out += table_of(study, r, envelope);
  return out;
}

std::optional<FittingNodes> nodes_that_fit(const Study& study, const Space& space, const SweepResult& r) {
  if (r.counts.miss.id == kNoId) return std::nullopt;
  const std::uint32_t cluster = space.decode(r.counts.miss.id).cluster;
  const auto enough = fitting_nodes(study, cluster);
  if (!enough) return std::nullopt;
  constexpr std::int64_t kMostTries = 4096;  // architectures x numbers of nodes: seconds
  const auto fewest = fewest_nodes(study, cluster, *enough, kMostTries / std::max<std::int64_t>(1, static_cast<std::int64_t>(study.architectures.size())));
  return FittingNodes{fewest.value_or(*enough), fewest.has_value()};
}

Json closest_miss_json(const Study& study, const Space& space, const SweepResult& r, std::optional<FittingNodes> nodes) {
  Json out = Json::object();
  if (r.counts.miss.id != kNoId) {
    const Digits d = space.decode(r.counts.miss.id);
    const Cluster& cluster = study.clusters[d.cluster];
    out["id"] = r.counts.miss.id;
    out["architecture"] = space.architecture(d).name;
    out["cluster"] = {{"name", cluster.name}, {"nodes", nodes_of(cluster)}, {"devices", cluster.devices}};
    out["plan"] = plan_json(space.plan(d));
    out["memory_with_reserve_bytes"] = r.counts.miss.memory_with_reserve_bytes;
    out["excess_bytes"] = r.counts.miss.excess_bytes;
  }
  out["nodes_that_fit"] = nodes ? Json(nodes->nodes) : Json(nullptr);
  return out;
}

std::string nothing_fits_text(const Space& space, const SweepResult& r, std::optional<FittingNodes> nodes) {
  std::string out = fmt::format("Nothing fits: of {} points", grouped(r.counts.points));
  for (std::size_t i = 1; i < kReasonCount; ++i)
    if (r.counts.refused[i] > 0)
      out += fmt::format("\n  {:>16} refused for {}: {}", grouped(r.counts.refused[i]), to_string(static_cast<Reason>(i)),
                         explanation(static_cast<Reason>(i)));
  if (r.counts.miss.id == kNoId) return out + "\nNo plan is legal, so there is no closest miss: loosen the axes above.\n";
  const Digits d = space.decode(r.counts.miss.id);
  out += fmt::format("\nClosest miss: {} with {} on {} nodes needs {:.2f} GiB, {:.2f} GiB ({:.0f} bytes) more than the limit.\n",
                     space.architecture(d).name, short_plan(space.plan(d)), nodes_of(space.cluster(d)),
                     r.counts.miss.memory_with_reserve_bytes / kGiB, r.counts.miss.excess_bytes / kGiB, r.counts.miss.excess_bytes);
  out += nodes ? fmt::format("{} number of nodes on which something fits is {}.\n", nodes->smallest ? "The smallest" : "Doubling the nodes, the first", nodes->nodes)
               : std::string("Nothing fits on any doubling of the nodes either: raise the memory or shrink the architectures.\n");
  return out;
}

}  // namespace tessera
