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
#include "src/cluster_options.hpp"
#include "src/cost_output.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options : WorkloadOptions {
  std::string plan;
};

struct Change {
  std::string what;
  Plan plan;
  StepCost cost;
};

// Plans one or two digits away, legal and fitting, that are faster.
std::vector<Change> helpful_changes(const PlanQuestion& q, const Plan& base, double seconds) {
  std::vector<Change> out;
  auto consider = [&](const std::string& what, Plan p) {
    const std::int64_t ranks = std::int64_t{1} * p.tp * p.cp * p.pp;
    if (ranks <= 0 || q.cluster.devices % ranks) return;
    p.dp = static_cast<int>(q.cluster.devices / ranks);
    if (p == base || legality(q.architecture, q.cluster, p, q.sequence) != Reason::none) return;
    StepCost cost = evaluate(q.architecture, q.cluster, p, q.sequence);
    if (cost.fits() && cost.step_seconds < seconds) out.push_back({what, p, std::move(cost)});
  };
  auto degree = [&](const char* name, int Plan::*member) {
    for (int factor : {2, 4}) {
      Plan up = base;
      up.*member *= factor;
      consider(fmt::format("{} {} -> {}", name, base.*member, up.*member), up);
      if (base.*member % factor == 0) {
        Plan down = base;
        down.*member /= factor;
        consider(fmt::format("{} {} -> {}", name, base.*member, down.*member), down);
      }
    }
  };
  degree("tp", &Plan::tp);
  degree("cp", &Plan::cp);
  degree("pp", &Plan::pp);
  degree("ep", &Plan::ep);
  degree("micro-batch", &Plan::micro_batch);
  for (int zero = 0; zero <= 3; ++zero) {
    Plan p = base;
    p.zero = zero;
    consider(fmt::format("ZeRO {} -> {}", base.zero, zero), p);
  }
  for (Recompute r : {Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full}) {
    Plan p = base;
    p.recompute = r;
    consider(fmt::format("recomputation {} -> {}", to_string(base.recompute), to_string(r)), p);
  }
  for (Schedule s : q.cluster.stack.schedules)
    for (int v : {1, 2, 3, 4, 6, 8}) {
      if ((v > 1) != (s == Schedule::interleaved)) continue;
      Plan p = base;
      p.schedule = s;
      p.virtual_stages = v;
      consider(fmt::format("schedule {} v{} -> {} v{}", to_string(base.schedule), base.virtual_stages, to_string(s), v), p);
    }
  for (Precision f : {Precision::fp8, Precision::mxfp8}) {
    Plan p = base;
    p.precision = f;
    if (base.precision == Precision::bf16) consider(fmt::format("precision {} -> {}", to_string(base.precision), to_string(f)), p);
  }
  std::stable_sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.cost.step_seconds < b.cost.step_seconds; });
  constexpr std::size_t kShown = 3;
  if (out.size() > kShown) out.resize(kShown);
  return out;
}

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
  const auto changes = helpful_changes(q, plan, cost.step_seconds);
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
    out["binds"] = binding_part(cost);
    out["outside_validation"] = trust.outside;
    if (!busiest.empty()) out["expert_load"]["assumed"] = 1 + q.cluster.stack.imbalance;
    for (const auto& [balancing, factor] : busiest) out["expert_load"]["expected"][balancing] = factor;
    out["changes"] = Json::array();
    for (const Change& c : changes)
      out["changes"].push_back({{"change", c.what}, {"plan", plan_json(c.plan)}, {"step_seconds", c.cost.step_seconds}, {"gain", 1 - c.cost.step_seconds / cost.step_seconds}});
    std::cout << out.dump(2) << "\n";
    return kDone;
  }
  fmt::print("{} on {}\nplan {}\n", q.architecture.name, describe_cluster(q.cluster), to_text(plan));
  if (follows && !given.has("etp")) fmt::print("etp {} (the stack's default: etp follows tp); the expert mesh is {} devices of a stage\n", plan.etp, std::int64_t{1} * plan.ep * plan.etp);
  fmt::print("{} micro-batches a rank; N_total {:.2f} B, N_active {:.2f} B (non-embedding)\n\n", plan.micro_batches(), double(count.non_embedding_total) / 1e9, double(count.non_embedding_active) / 1e9);
  print_cost(cost);
  fmt::print("\n{:.1f} tokens/s/device; MFU over the dense bf16 peak: {:.2f} % (law: 6 N_active), {:.2f} % (model: with head, causal attention halved),\n"
             "{:.2f} % (full attention square)\nwhat binds: {}\n", tokens / cost.step_seconds / double(plan.devices()), 100 * mfu(flops.law), 100 * mfu(flops.model),
             100 * mfu(flops.model_full_attention), binding_part(cost));
  for (const auto& sentence : trust.outside) fmt::print("outside what was validated: {}\n", sentence);
  if (!q.architecture.left_out.empty()) fmt::print("left out of the counts: {}\n", q.architecture.left_out);
  if (!busiest.empty()) {
    fmt::print("expert load: the busiest rank is taken to have {:.3g} times the mean; to expect of {} ranks:", 1 + q.cluster.stack.imbalance, plan.ep);
    for (std::size_t i = 0; i < busiest.size(); ++i) fmt::print("{} {:.2f} ({})", i ? "," : "", busiest[i].second, busiest[i].first);
    fmt::print("\n(with -c {},imbalance=0.05 it has 1.05 times the mean)\n", q.cluster.fabric.name.empty() ? "CLUSTER" : q.cluster.fabric.name);
  }
  const double ideal = flops.model * tokens / (q.cluster.peak(plan.precision) * double(plan.devices()));
  fmt::print("limit of the hardware: {:.4g} s if every model FLOP ran at the {} peak\n", ideal, to_string(plan.precision));
  if (changes.empty()) fmt::print("no single change of the plan makes it faster\n");
  else fmt::print("\nchanges that would help most\n");
  for (const Change& c : changes)
    fmt::print("  {:<44} {:>9.4g} s  {:>+6.1f} %\n", c.what, c.cost.step_seconds, 100 * (c.cost.step_seconds / cost.step_seconds - 1));
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
