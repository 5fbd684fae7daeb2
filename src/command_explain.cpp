// tessera explain: one plan, every second and byte, and what would help most.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "command.hpp"
#include "io/architecture_fields.hpp"
#include "io/budget_reader.hpp"
#include "io/plan_text.hpp"
#include "io/trust.hpp"
#include "search/legality.hpp"
#include "src/binding.hpp"
#include "src/cluster_options.hpp"
#include "src/cost_output.hpp"
#include "src/plan_changes.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options : WorkloadOptions {
  std::string plan;
};

// Load of the busiest rank over the mean of the ranks that share a layer's experts, by kind of balancing; empty where no
// rank has fewer experts than another (budget-constants study, section 6).
std::vector<std::pair<std::string, double>> busiest_ranks(const Architecture& a, const Plan& p, std::int64_t sequence) {
  std::vector<std::pair<std::string, double>> out;
  if (!a.is_moe() || p.ep == 1) return out;
  const double local = double(p.micro_batch) * double(sequence) / p.cp;
  const double per_expert = double(p.ep) * p.etp * local * double(a.top_k) / (double(p.tp) * double(a.experts));
  for (const char* balancing : {"loss-free", "auxiliary-loss", "none"})
    out.emplace_back(balancing, busiest_rank(read_imbalance(balancing), per_expert, double(a.experts) / p.ep, p.ep));
  return out;
}

void print_changes(const std::vector<PlanChange>& changes, const StepCost& cost) {
  if (changes.empty()) return fmt::print("no single change of the plan makes it {}\n", cost.fits() ? "faster" : "smaller");
  fmt::print("\n{}\n", cost.fits()                   ? "changes that would help most"
                       : changes.front().cost.fits() ? "changes that make it fit, the fastest first"
                                                     : "no single change makes it fit; these come nearest (tessera plan searches all together)");
  for (const PlanChange& c : changes)
    fmt::print("  {:<44} {:>9.4g} s  {:>+6.1f} %  {:>8.2f} GiB with reserve\n", c.what, c.cost.step_seconds, 100 * (c.cost.step_seconds / cost.step_seconds - 1),
               c.cost.memory_with_reserve_bytes / kGiB);
}

int run_explain(const Session& session, const Options& o) {
  Plan base;
  const PlanQuestion q = workload_question(o, &base);
  base.zero = o.megatron.empty() ? q.cluster.stack.default_zero : base.zero;
  base.precision = q.precision;
  base.optimizer = q.optimizer;
  base.batch = q.batch;
  const bool follows = q.cluster.stack.etp_follows_tp && q.architecture.is_moe();
  const PlanText given = read_plan_text(o.plan, base);
  Plan plan = o.plan.empty() ? base : parse_plan(o.plan, base, q.cluster.devices, follows);
  if (!given.has("batch")) plan.batch = q.batch;
  if (o.plan.empty() && plan.devices() != q.cluster.devices) plan.dp = static_cast<int>(q.cluster.devices / (std::int64_t{1} * plan.tp * plan.cp * plan.pp));
  const Reason reason = legality(q.architecture, q.cluster, plan, q.sequence);
  if (reason != Reason::none && reason != Reason::not_canonical)
    throw InputError(fmt::format("the plan {} is refused: {}", to_text(plan), to_string(reason)), std::string(explanation(reason)),
                     "change it; tessera plan lists the legal ones.");
  StepCost cost = evaluate(q.architecture, q.cluster, plan, q.sequence);
  const Trust trust = trust_in(q.architecture, q.cluster, plan, q.sequence);
  cost.expected_error = trust.expected_error;
  const ParameterCount count = count_parameters(q.architecture);
  const TokenFlops flops = token_flops(q.architecture, q.sequence, plan.recompute);
  const double tokens = double(plan.batch) * double(q.sequence);
  const double peak = q.cluster.device.peak_bf16 * double(plan.devices());
  auto mfu = [&](double per_token) { return per_token * tokens / (cost.step_seconds * peak); };
  const auto changes = helpful_changes(q, plan, cost);
  const auto busiest = busiest_ranks(q.architecture, plan, q.sequence);
  if (session.json) {
    Json out = cost_json(cost);
    out["mfu"] = {{"law", mfu(flops.law)}, {"model", mfu(flops.model)}, {"model_full_attention", mfu(flops.model_full_attention)}, {"hardware", mfu(flops.hardware)}};
    out["flops_per_token"] = {{"law", flops.law}, {"model", flops.model}, {"model_full_attention", flops.model_full_attention}, {"hardware", flops.hardware}};
    out["plan"] = plan_json(plan);
    out["micro_batches"] = plan.micro_batches();
    out["edp"] = plan.edp();
    out["architecture"] = architecture_json(q.architecture);
    out["tokens_per_second_per_device"] = tokens / cost.step_seconds / double(plan.devices());
    const Binding binding = binding_of(cost, plan, q.cluster.fabric);
    out["binds"] = binding.part;
    if (!binding.level.empty()) out["binds_level"] = binding.level;
    out["outside_validation"] = trust.outside;
    if (!busiest.empty()) out["expert_load"]["assumed"] = 1 + q.cluster.stack.imbalance;
    for (const auto& [balancing, factor] : busiest) out["expert_load"]["expected"][balancing] = factor;
    out["changes"] = Json::array();
    for (const PlanChange& c : changes)
      out["changes"].push_back({{"change", c.what}, {"plan", plan_json(c.plan)}, {"step_seconds", c.cost.step_seconds}, {"gain", 1 - c.cost.step_seconds / cost.step_seconds},
                                {"memory_with_reserve_bytes", c.cost.memory_with_reserve_bytes}, {"fits", c.cost.fits()}});
    std::cout << out.dump(2) << "\n";
    return kDone;
  }
  fmt::print("{} on {}\nplan {}\n", q.architecture.name, describe_cluster(q.cluster), to_text(plan));
  if (follows && !given.has("etp")) fmt::print("etp {} (the stack's default: etp follows tp); the expert mesh is {} devices of a stage\n", plan.etp, std::int64_t{1} * plan.ep * plan.etp);
  fmt::print("{} micro-batches a rank; N_total {:.2f} B, N_active {:.2f} B (non-embedding)\n\n", plan.micro_batches(), double(count.non_embedding_total) / 1e9, double(count.non_embedding_active) / 1e9);
  print_cost(cost);
  fmt::print("\n{:.1f} tokens/s/device; MFU over the dense bf16 peak: {:.2f} % (law: 6 N_active), {:.2f} % (model: with head, causal attention halved),\n"
             "{:.2f} % (full attention square)\nwhat binds: {}\n", tokens / cost.step_seconds / double(plan.devices()), 100 * mfu(flops.law), 100 * mfu(flops.model),
             100 * mfu(flops.model_full_attention), binding_of(cost, plan, q.cluster.fabric).text);
  for (const auto& sentence : trust.outside) fmt::print("outside what was validated: {}\n", sentence);
  if (!q.architecture.left_out.empty()) fmt::print("left out of the counts: {}\n", q.architecture.left_out);
  if (!busiest.empty()) {
    fmt::print("expert load: the busiest rank is taken to have {:.3g} times the mean; to expect of {} ranks:", 1 + q.cluster.stack.imbalance, plan.ep);
    for (std::size_t i = 0; i < busiest.size(); ++i) fmt::print("{} {:.2f} ({})", i ? "," : "", busiest[i].second, busiest[i].first);
    fmt::print("\n(with -c {},imbalance=0.05 it has 1.05 times the mean)\n", q.cluster.fabric.name.empty() ? "CLUSTER" : q.cluster.fabric.name);
  }
  const double ideal = flops.model * tokens / (q.cluster.peak(plan.precision) * double(plan.devices()));
  fmt::print("limit of the hardware: {:.4g} s if every model FLOP ran at the {} peak\n", ideal, to_string(plan.precision));
  print_changes(changes, cost);
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  auto* c = app.add_subcommand("explain", "One plan: where each second and byte goes, what binds, and what would help");
  auto o = std::make_shared<Options>();
  add_workload_options(*c, *o);
  c->add_option("--plan", o->plan, "The plan, e.g. tp=1,pp=8,ep=8,micro_batch=4,recompute=full (dp follows from the devices)");
  c->add_flag("--json", session.json, "One JSON object on standard output");
  c->footer("Example:\n  tessera explain -a ladder:q=12,experts=96,top_k=2,split=4 -c p6-b200 --nodes 32 --batch 1024 --seq 2048 --plan pp=8,ep=8,micro_batch=4");
  c->callback([o, &session] { session.action = [o, &session] { return run_explain(session, *o); }; });
}

}  // namespace tessera
