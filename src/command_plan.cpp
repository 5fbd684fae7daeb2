// tessera plan: the best plans of one architecture on one cluster.
#include <iostream>

#include <fmt/format.h>

#include "command.hpp"
#include "io/architecture_fields.hpp"
#include "io/trust.hpp"
#include "search/shortfall.hpp"
#include "src/cluster_options.hpp"
#include "src/cost_output.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options : WorkloadOptions {
  std::size_t top = 10;
};

Json plan_row(const PlanQuestion& q, const Plan& p, const StepCost& cost) {
  const double active = double(count_parameters(q.architecture).non_embedding_active);
  Json row;
  row["plan"] = plan_json(p);
  row["step_seconds"] = cost.step_seconds;
  row["mfu"] = law_mfu(active, p.batch, q.sequence, cost.step_seconds, p.devices(), q.cluster.device.peak_bf16);
  row["memory_bytes"] = cost.memory_bytes;
  row["memory_with_reserve_bytes"] = cost.memory_with_reserve_bytes;
  row["tokens_per_second_per_device"] = double(p.batch) * double(q.sequence) / cost.step_seconds / double(p.devices());
  const Trust trust = trust_in(q.architecture, q.cluster, p, q.sequence);
  row["expected_error"] = trust.expected_error;
  row["outside_validation"] = trust.outside;
  return row;
}

Json refused_of(const Counts& counts) {
  Json out = Json::object();
  for (std::size_t r = 1; r < kReasonCount; ++r)
    if (counts.refused[r] > 0) out[std::string(to_string(static_cast<Reason>(r)))] = counts.refused[r];
  return out;
}

int nothing_fits(const Session& session, const PlanQuestion& q, const Study& study, const Space& space, const PlanAnswer& answer) {
  Json out{{"evaluated", answer.counts.evaluations}, {"feasible", 0}, {"refused", refused_of(answer.counts)}, {"plans", Json::array()}};
  std::string text = fmt::format("no plan of {} fits on {}\n", q.architecture.name, describe_cluster(q.cluster));
  for (std::size_t r = 1; r < kReasonCount; ++r)
    if (answer.counts.refused[r] > 0)
      text += fmt::format("  {:>12} refused: {}\n", grouped(answer.counts.refused[r]), explanation(static_cast<Reason>(r)));
  if (answer.counts.miss.id != kNoId) {
    const Digits d = space.decode(answer.counts.miss.id);
    text += fmt::format("closest: {} misses the memory by {:.2f} GiB\n", short_plan(space.plan(d)), answer.counts.miss.excess_bytes / kGiB);
    out["closest_miss"] = {{"plan", plan_json(space.plan(d))}, {"excess_bytes", answer.counts.miss.excess_bytes},
                           {"memory_with_reserve_bytes", answer.counts.miss.memory_with_reserve_bytes}};
    if (const auto enough = fitting_nodes(study, d.cluster)) {
      const auto fewest = fewest_nodes(study, d.cluster, *enough);
      const std::int64_t nodes = fewest.value_or(*enough);
      text += fmt::format("{}: {} ({} devices)\n", fewest ? "the smallest number of nodes that fits" : "doubling the nodes, the first number that fits", nodes,
                          nodes * q.cluster.fabric.node_devices);
      out["smallest_nodes"] = nodes;
    } else {
      text += "no larger number of nodes fits either: a smaller model, batch or sequence, or another stack would be needed\n";
    }
  } else {
    text += "no plan is legal, so none came near: change what most were refused for\n";
  }
  if (session.json) std::cout << out.dump(2) << "\n";
  else fmt::print("{}", text);
  return kNothingFeasible;
}

int run_plan(const Session& session, const Options& o) {
  const PlanQuestion q = workload_question(o);
  const Study study = plan_study(q);
  const Space space(study);
  const PlanAnswer answer = search_plans(space, o.top);
  if (answer.best.empty()) return nothing_fits(session, q, study, space, answer);
  Json rows = Json::array();
  if (!session.json) {
    fmt::print("{} on {}; batch {} x {} tokens, {}\n{} plans evaluated, {} fit\n\n", q.architecture.name, describe_cluster(q.cluster), q.batch, q.sequence,
               to_string(q.precision), grouped(answer.counts.evaluations), grouped(answer.counts.feasible));
    fmt::print("{:>4} {:<44} {:>9} {:>7} {:>10} {:>11}\n", "rank", "plan (degrees of 1 left out)", "step s", "MFU %", "tok/s/dev", "memory GiB");
  }
  double error = 0;
  for (std::size_t i = 0; i < answer.best.size(); ++i) {
    const Plan p = space.plan(space.decode(answer.best[i].id));
    const StepCost cost = evaluate(q.architecture, q.cluster, p, q.sequence);
    Json row = plan_row(q, p, cost);
    error = std::max(error, row["expected_error"].get<double>());
    if (!session.json)
      fmt::print("{:>4} {:<44} {:>9.4g} {:>7.2f} {:>10.1f} {:>11.1f}\n", i + 1, short_plan(p).substr(0, 44), cost.step_seconds, 100 * row["mfu"].get<double>(),
                 row["tokens_per_second_per_device"].get<double>(), cost.memory_bytes / kGiB);
    rows.push_back(std::move(row));
  }
  if (session.json) {
    std::cout << Json{{"architecture", architecture_json(q.architecture)}, {"evaluated", answer.counts.evaluations}, {"feasible", answer.counts.feasible},
                      {"refused", refused_of(answer.counts)}, {"expected_error", error}, {"plans", rows}}.dump(2) << "\n";
  } else {
    fmt::print("\nMFU: 6 N_active (non-embedding) over the dense bf16 peak. Expect step times to be off by up to about {:.0f} % here.\n"
               "Details of one: tessera explain ... --plan tp=..,pp=..\n", 100 * error);
    for (const auto& sentence : rows.front()["outside_validation"]) fmt::print("outside what was validated: {}\n", sentence.get<std::string>());
    if (!q.architecture.left_out.empty()) fmt::print("left out of the counts: {}\n", q.architecture.left_out);
  }
  return kDone;
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto* c = app.add_subcommand("plan", "The best execution plans of one architecture on one cluster");
  auto o = std::make_shared<Options>();
  add_workload_options(*c, *o);
  c->add_option("--top", o->top, "Plans to print")->capture_default_str()->check(CLI::Range(1, 100000));
  c->add_option("--fix", o->fix, "Axis values to keep, e.g. tp=8 or schedule=1f1b,interleaved")->delimiter('\0');
  c->add_option("--forbid", o->forbid, "Axis values to leave out, e.g. schedule=dualpipe")->delimiter('\0');
  c->add_flag("--json", session.json, "One JSON object on standard output");
  c->footer("Example:\n  tessera plan -a mixtral_8x7b -c p6-b200 --nodes 4 --batch 512 --seq 4096 --top 5");
  c->callback([o, &session] { session.action = [o, &session] { return run_plan(session, *o); }; });
}

}  // namespace tessera
