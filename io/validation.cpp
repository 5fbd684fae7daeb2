#include "io/validation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "io/csv_table.hpp"
#include "io/run_fit.hpp"
#include "io/toml_reader.hpp"
#include "model/step_cost_detail.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = q * double(sorted.size() - 1);
  const std::size_t i = std::size_t(at);
  const double next = sorted[std::min(i + 1, sorted.size() - 1)];
  return sorted[i] + (at - double(i)) * (next - sorted[i]);
}

std::string scale_of(std::int64_t devices) {
  if (devices <= 8) return "<= 8 GPUs";
  if (devices <= 64) return "9-64 GPUs";
  if (devices <= 256) return "65-256 GPUs";
  if (devices <= 1024) return "257-1024 GPUs";
  return "> 1024 GPUs";
}

void summarise_groups(Validation& v) {
  std::map<std::string, std::vector<const ScoredRun*>> groups;
  for (const ScoredRun& s : v.scored) {
    if (!s.run->seconds) continue;
    const MappedRun& r = *s.run;
    groups[fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", r.model, r.architecture.layers, r.device, r.plan.devices(), int(r.plan.precision), r.sequence,
                       r.plan.batch, r.source)].push_back(&s);
  }
  double tau_sum = 0, regret_sum = 0;
  std::size_t apart = 0, right = 0;
  for (const auto& [key, members] : groups) {
    std::set<std::string> plans;
    for (const ScoredRun* s : members) plans.insert(s->run->plan_key);
    if (plans.size() < 2) continue;
    double agree = 0, total = 0;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = i + 1; j < members.size(); ++j) {
        if (members[i]->run->plan_key == members[j]->run->plan_key) continue;
        const double measured = std::log(*members[i]->run->seconds / *members[j]->run->seconds);
        const double predicted = std::log(members[i]->predicted_seconds / members[j]->predicted_seconds);
        if (measured == 0) continue;
        agree += measured * predicted > 0 ? 1 : predicted == 0 ? 0 : -1;
        total += 1;
        ++v.groups.pairs;
        if (std::abs(measured) > std::log(1.05)) {
          ++apart;
          right += measured * predicted > 0;
        }
      }
    if (total == 0) continue;
    ++v.groups.groups;
    tau_sum += agree / total;
    auto predicted_best = std::min_element(members.begin(), members.end(), [](auto* a, auto* b) { return a->predicted_seconds < b->predicted_seconds; });
    auto measured_best = std::min_element(members.begin(), members.end(), [](auto* a, auto* b) { return *a->run->seconds < *b->run->seconds; });
    regret_sum += 100 * (*(*predicted_best)->run->seconds / *(*measured_best)->run->seconds - 1);
  }
  if (v.groups.groups > 0) {
    v.groups.kendall_tau = tau_sum / double(v.groups.groups);
    v.groups.top1_regret_pct = regret_sum / double(v.groups.groups);
  }
  if (apart > 0) v.groups.ordered_pct = 100.0 * double(right) / double(apart);
}

void summarise_all(Validation& v) {
  std::vector<double> time, memory;
  std::map<std::string, std::map<std::string, std::vector<double>>> by;
  std::map<std::string, std::vector<double>> memory_by;
  for (const ScoredRun& s : v.scored) {
    const MappedRun& r = *s.run;
    if (r.seconds) {
      time.push_back(s.error);
      by["device"][r.device].push_back(s.error);
      by["framework"][r.framework].push_back(s.error);
      by["stack"][r.stack].push_back(s.error);
      by["model kind"][r.architecture.is_moe() ? "MoE" : "dense"].push_back(s.error);
      by["model"][r.model].push_back(s.error);
      by["precision"][std::string(to_string(r.plan.precision))].push_back(s.error);
      by["scale"][scale_of(r.plan.devices())].push_back(s.error);
      by["publisher"][r.publisher].push_back(s.error);
    }
    if (r.memory) {
      memory.push_back(s.memory_error);
      memory_by[std::string(to_string(r.memory_kind)) + ", " + r.framework].push_back(s.memory_error);
    }
    v.infeasible += !s.feasible;
  }
  v.time = summarise(time);
  v.memory = summarise(memory);
  for (auto& [what, groups] : by)
    for (auto& [key, errors] : groups) v.by[what][key] = summarise(errors);
  for (auto& [kind, errors] : memory_by) v.memory_by[kind] = summarise(errors);
  summarise_groups(v);
}

ScoredRun score(const MappedRun& r) {
  ScoredRun s;
  s.run = &r;
  s.cost = evaluate_modules(r.architecture, r.cluster.cluster, r.plan, r.sequence, r.modules);
  s.predicted_seconds = s.cost.step_seconds;
  if (r.seconds) s.error = s.predicted_seconds / *r.seconds - 1;
  const Stack& stack = r.cluster.cluster.stack;
  if (r.memory) {
    s.predicted_memory = s.cost.memory_bytes;
    if (r.memory_kind == MemoryKind::reserved) s.predicted_memory = s.cost.memory_with_reserve_bytes - stack.context_bytes - stack.buffer_bytes;
    if (r.memory_kind == MemoryKind::nvidia_smi) s.predicted_memory = s.cost.memory_with_reserve_bytes;
    s.memory_error = s.predicted_memory / *r.memory - 1;
  }
  s.feasible = s.cost.fits();
  return s;
}

}  // namespace

ErrorSummary summarise(std::vector<double> errors) {
  ErrorSummary e;
  e.used = errors.size();
  if (errors.empty()) return e;
  double sum = 0, signed_sum = 0;
  for (double& x : errors) {
    signed_sum += x;
    x = std::abs(x);
    sum += x;
  }
  std::sort(errors.begin(), errors.end());
  e.median_abs_pct = 100 * quantile(errors, 0.5);
  e.mean_abs_pct = 100 * sum / double(errors.size());
  e.p90_abs_pct = 100 * quantile(errors, 0.9);
  e.bias_pct = 100 * signed_sum / double(errors.size());
  return e;
}

Validation validate_runs(const std::vector<MappedRun>& runs) {
  Validation v;
  v.scored.resize(runs.size());
  tbb::parallel_for(std::size_t{0}, runs.size(), [&](std::size_t i) { v.scored[i] = score(runs[i]); });
  summarise_all(v);
  return v;
}

std::string fold_key(const MappedRun& r, const std::string& partition) {
  if (partition == "publisher") return r.publisher;
  if (partition == "release") return r.source;
  if (partition == "model") return r.model;
  if (partition == "device") return r.device;
  if (partition == "plan") return r.plan_key;
  throw InputError("unknown partition '" + partition + "'", "folds are formed by a property of the runs",
                   suggestion(partition, {"publisher", "release", "model", "device", "plan"}));
}

Validation cross_validate(std::vector<MappedRun>& runs, const std::string& partition) {
  std::map<std::string, std::vector<std::size_t>> folds;
  for (std::size_t i = 0; i < runs.size(); ++i) folds[fold_key(runs[i], partition)].push_back(i);
  for (const auto& [key, members] : folds) {
    std::vector<MappedRun> rest;
    std::vector<bool> out(runs.size(), false);
    for (std::size_t i : members) out[i] = true;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (!out[i]) rest.push_back(runs[i]);
    // Constants that only the fold uses fall back to the centre of their prior.
    std::vector<FreeConstant> values;
    const auto remaining = free_constants(rest);
    std::vector<MappedRun> held;
    for (std::size_t i : members) held.push_back(runs[i]);
    for (Constant c : free_constants(held)) {
      const bool fitted = std::any_of(remaining.begin(), remaining.end(), [&](const Constant& o) { return o.kind == c.kind && o.preset == c.preset && o.key == c.key; });
      if (!fitted) {
        c.value = c.prior_centre;
        values.push_back({c, 0, 0});
      }
    }
    RunFitOptions options;
    const RunFit fit = fit_constants(rest, options);
    values.insert(values.end(), fit.constants.begin(), fit.constants.end());
    set_constants(held, values);
    for (std::size_t k = 0; k < members.size(); ++k) runs[members[k]].cluster = held[k].cluster;
  }
  return validate_runs(runs);
}

std::string errors_csv(const Validation& v) {
  std::string out = "row_id,measured_seconds,predicted_seconds,error_pct,measured_memory_bytes,predicted_memory_bytes,memory_kind\n";
  for (const ScoredRun& s : v.scored) {
    const MappedRun& r = *s.run;
    out += csv_field(r.row_id) + ",";
    out += r.seconds ? fmt::format("{:.9g},{:.9g},{:.6g},", *r.seconds, s.predicted_seconds, 100 * s.error) : fmt::format(",{:.9g},,", s.predicted_seconds);
    out += r.memory ? fmt::format("{:.0f},{:.0f},{}\n", *r.memory, s.predicted_memory, to_string(r.memory_kind)) : fmt::format(",{:.0f},\n", s.cost.memory_bytes);
  }
  return out;
}

}  // namespace tessera
