// tessera validate: the cost model against measured runs.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/output_file.hpp"
#include "io/run_fit.hpp"
#include "io/validation.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Options {
  std::string runs, out, map, presets, cross;
  std::vector<std::string> quality{"A", "A-"};
  int worst = 5;
};

nlohmann::ordered_json json_of(const ErrorSummary& e) {
  return {{"used", e.used}, {"median_abs_pct", e.median_abs_pct}, {"mean_abs_pct", e.mean_abs_pct}, {"p90_abs_pct", e.p90_abs_pct}, {"bias_pct", e.bias_pct}};
}

nlohmann::ordered_json json_of(const MappedRuns& runs, const Validation& v, const Options& o, std::size_t constants) {
  nlohmann::ordered_json j;
  j["rows"] = runs.rows;
  j["used"] = v.scored.size();
  j["skipped"] = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : runs.skipped) j["skipped"][reason] = count;
  j["time"] = json_of(v.time);
  j["memory"] = json_of(v.memory);
  j["groups"] = {{"groups", v.groups.groups}, {"pairs", v.groups.pairs}, {"kendall_tau", v.groups.kendall_tau},
                 {"top1_regret_pct", v.groups.top1_regret_pct}, {"ordered_pct", v.groups.ordered_pct}};
  j["by"] = nlohmann::ordered_json::object();
  for (const auto& [what, groups] : v.by)
    for (const auto& [key, e] : groups) j["by"][what][key] = json_of(e);
  for (const auto& [key, e] : v.memory_by) j["by"]["memory kind"][key] = json_of(e);
  j["infeasible"] = v.infeasible;
  j["fitted_constants"] = constants;
  j["left_out"] = o.cross.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(o.cross);
  return j;
}

void print_summary(const std::string& name, const ErrorSummary& e) {
  fmt::print("  {:<52} {:>5} {:>7.1f} {:>7.1f} {:>7.1f} {:>+7.1f}\n", name.substr(0, 52), e.used, e.median_abs_pct, e.mean_abs_pct, e.p90_abs_pct, e.bias_pct);
}

void print_breakdown(const ScoredRun& s) {
  const TimeBreakdown& t = s.cost.time;
  const std::pair<const char*, double> parts[] = {{"gemm", t.gemm}, {"experts", t.experts}, {"attention", t.attention}, {"point-wise", t.pointwise},
      {"casts", t.casts}, {"head", t.head}, {"recompute", t.recompute}, {"tp", t.tensor_parallel}, {"cp", t.context_parallel},
      {"exchange", t.expert_exchange}, {"p2p", t.point_to_point}, {"dp", t.data_parallel}, {"host", t.host}, {"ramp", t.ramp},
      {"optimizer", t.optimizer}, {"fixed", t.fixed}, {"jitter", t.jitter}};
  std::string line;
  for (const auto& [name, seconds] : parts)
    if (std::abs(seconds) > 0.005 * s.cost.step_seconds) line += fmt::format(" {} {:.0f} %", name, 100 * seconds / s.cost.step_seconds);
  fmt::print("     {}\n", line.substr(1));
}

// What a run is said to need that ran: the heaviest stage's parts.
void print_refused(const Validation& v) {
  fmt::print("{} runs that ran are called infeasible\n", v.infeasible);
  for (const ScoredRun& s : v.scored) {
    if (s.feasible) continue;
    const Plan& p = s.run->plan;
    const StageMemory& m = s.cost.stages[static_cast<std::size_t>(s.cost.heaviest_stage)];
    fmt::print("  {:>6} {:<20.20} {:<10} {:>5} GPUs {} tp{} cp{} pp{} v{} ep{} b{}: needs {:.1f} of {:.1f} GiB\n", s.run->row_id, s.run->model, s.run->device,
               p.devices(), to_string(p.precision), p.tp, p.cp, p.pp, p.virtual_stages, p.ep, p.micro_batch, s.cost.memory_with_reserve_bytes / kGiB,
               s.cost.capacity_bytes / kGiB);
    fmt::print("     stage {}: weights {:.1f} gradients {:.1f} optimizer {:.1f} activations {:.1f} working set {:.1f} reserve {:.1f} GiB\n", s.cost.heaviest_stage,
               m.weights / kGiB, m.gradients / kGiB, m.optimizer / kGiB, m.activations / kGiB, m.working_set / kGiB,
               (s.cost.memory_with_reserve_bytes - s.cost.memory_bytes) / kGiB);
  }
}

void print_tables(const MappedRuns& runs, const Validation& v, const Options& o, std::size_t constants) {
  fmt::print("{} rows, {} scored; {} fitted constants of devices, links and stacks{}\n", runs.rows, v.scored.size(), constants,
             o.cross.empty() ? "" : fmt::format("; each {} left out of the fit that predicts it", o.cross));
  for (const auto& [reason, count] : runs.skipped) fmt::print("  skipped {:>4}: {}\n", count, reason);
  fmt::print("\nError of the step time, (predicted - measured)/measured, in %\n  {:<52} {:>5} {:>7} {:>7} {:>7} {:>7}\n", "", "runs", "median", "mean", "p90", "bias");
  print_summary("all", v.time);
  for (const auto& [what, groups] : v.by) {
    if (what == "model" || what == "publisher") continue;
    fmt::print(" by {}\n", what);
    for (const auto& [key, e] : groups) print_summary(key, e);
  }
  if (v.memory.used > 0) {
    fmt::print("\nError of the memory, in % (each figure predicted as its own kind)\n");
    print_summary("all", v.memory);
    for (const auto& [key, e] : v.memory_by) print_summary(key, e);
  }
  fmt::print("\nPlans of one model, cluster, format, batch and source: {} groups, {} pairs; mean Kendall tau {:.2f}; of pairs more than 5 % apart "
             "{:.0f} % in the right order; the plan predicted best is {:.1f} % slower than the best\n",
             v.groups.groups, v.groups.pairs, v.groups.kendall_tau, v.groups.ordered_pct, v.groups.top1_regret_pct);
  print_refused(v);
  std::vector<const ScoredRun*> worst;
  for (const auto& s : v.scored)
    if (s.run->seconds) worst.push_back(&s);
  std::stable_sort(worst.begin(), worst.end(), [](auto* a, auto* b) { return std::abs(a->error) > std::abs(b->error); });
  if (o.worst > 0) fmt::print("\nWorst rows (measured s, predicted s, error) and where the predicted time goes\n");
  for (std::size_t i = 0; i < worst.size() && int(i) < o.worst; ++i) {
    const ScoredRun& s = *worst[i];
    const Plan& p = s.run->plan;
    fmt::print("  {:>6} {:<20.20} {:<10} {:>5} GPUs {} tp{} cp{} pp{} v{} ep{} b{}: {:.3g} {:.3g} {:+.0f} %\n", s.run->row_id, s.run->model, s.run->device,
               p.devices(), to_string(p.precision), p.tp, p.cp, p.pp, p.virtual_stages, p.ep, p.micro_batch, *s.run->seconds, s.predicted_seconds, 100 * s.error);
    print_breakdown(s);
  }
}

int run_validate(const Session& session, const Options& o) {
  std::optional<OutputFile> out;
  if (!o.out.empty()) out.emplace("--out", o.out);
  const CsvTable table = CsvTable::read(o.runs);
  table.require({"gpu", "n_gpus"}, o.runs, "a run needs at least its device and their number");
  const Presets presets(o.presets);
  const RunMapping mapping(presets, o.map);
  const std::vector<std::string> quality = o.quality.size() == 1 && o.quality[0] == "all" ? std::vector<std::string>{} : o.quality;
  MappedRuns runs = mapping.map(table, quality);
  const std::size_t constants = free_constants(runs.runs).size();
  const Validation v = o.cross.empty() ? validate_runs(runs.runs) : cross_validate(runs.runs, o.cross);
  if (out) out->write(errors_csv(v));
  if (session.json)
    std::cout << json_of(runs, v, o, constants).dump(2) << "\n";
  else
    print_tables(runs, v, o, constants);
  if (v.scored.empty())
    throw InputError("no row of " + o.runs + " could be scored", "every row was skipped, for the reasons counted above", "complete the columns (docs/accuracy.md) or ask for other --quality.");
  return kDone;
}

}  // namespace

void add_validate(CLI::App& app, Session& session) {
  auto* c = app.add_subcommand("validate", "Predict measured runs and report the error of step time and memory");
  auto o = std::make_shared<Options>();
  c->add_option("RUNS", o->runs, "CSV table of runs (columns: docs/accuracy.md)")->required();
  c->add_option("--out", o->out, "Write errors.csv: one line per scored row");
  c->add_option("--quality", o->quality, "Qualities to score, or 'all'")->delimiter(',')->capture_default_str();
  c->add_option("--map", o->map, "TOML table that maps rows to presets (default: the built-in one)");
  c->add_option("--presets", o->presets, "Folder of preset files that shadow the built-in ones");
  c->add_option("--cross-validate", o->cross, "Refit with each publisher, release, model, device or plan left out and predict it");
  c->add_option("--worst", o->worst, "Worst rows to print with their breakdown")->capture_default_str()->check(CLI::NonNegativeNumber);
  c->add_flag("--json", session.json, "One JSON object on standard output");
  c->footer("Example:\n  tessera validate runs.csv --out errors.csv\n  tessera validate runs.csv --cross-validate model");
  c->callback([o, &session] { session.action = [o, &session] { return run_validate(session, *o); }; });
}

}  // namespace tessera
