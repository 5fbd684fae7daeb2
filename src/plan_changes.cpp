#include "src/plan_changes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "search/legality.hpp"

namespace tessera {
namespace {

constexpr std::size_t kShown = 3;

/// Gathers the changes that help.
class Changes {
 public:
  Changes(const PlanQuestion& q, const Plan& base, const StepCost& cost) : q_(q), base_(base), cost_(cost) {}

  void consider(const std::string& what, Plan p) {
    const std::int64_t ranks = std::int64_t{1} * p.tp * p.cp * p.pp;
    if (ranks <= 0 || q_.cluster.devices % ranks) return;
    p.dp = static_cast<int>(q_.cluster.devices / ranks);
    if (p == base_ || legality(q_.architecture, q_.cluster, p, q_.sequence) != Reason::none) return;
    StepCost cost = evaluate(q_.architecture, q_.cluster, p, q_.sequence);
    const bool helps = cost_.fits() ? cost.fits() && cost.step_seconds < cost_.step_seconds
                                    : cost.memory_with_reserve_bytes < cost_.memory_with_reserve_bytes;
    if (helps) out_.push_back({what, p, std::move(cost)});
  }

  void degree(const char* name, int Plan::*member) {
    for (int factor : {2, 4, 8}) {
      Plan up = base_;
      up.*member *= factor;
      consider(fmt::format("{} {} -> {}", name, base_.*member, up.*member), up);
      if (base_.*member % factor == 0) {
        Plan down = base_;
        down.*member /= factor;
        consider(fmt::format("{} {} -> {}", name, base_.*member, down.*member), down);
      }
    }
  }

  std::vector<PlanChange> best() {
    std::stable_sort(out_.begin(), out_.end(), [](const PlanChange& a, const PlanChange& b) {
      if (a.cost.fits() != b.cost.fits()) return a.cost.fits();
      if (a.cost.fits()) return a.cost.step_seconds < b.cost.step_seconds;
      return a.cost.memory_with_reserve_bytes < b.cost.memory_with_reserve_bytes;
    });
    // One that fits makes those that do not pointless.
    if (!out_.empty() && out_.front().cost.fits()) std::erase_if(out_, [](const PlanChange& c) { return !c.cost.fits(); });
    if (out_.size() > kShown) out_.resize(kShown);
    return std::move(out_);
  }

 private:
  const PlanQuestion& q_;
  const Plan& base_;
  const StepCost& cost_;
  std::vector<PlanChange> out_;
};

}  // namespace

std::vector<PlanChange> helpful_changes(const PlanQuestion& q, const Plan& base, const StepCost& cost) {
  Changes changes(q, base, cost);
  changes.degree("tp", &Plan::tp);
  changes.degree("cp", &Plan::cp);
  changes.degree("pp", &Plan::pp);
  changes.degree("ep", &Plan::ep);
  changes.degree("micro-batch", &Plan::micro_batch);
  for (int zero = 0; zero <= 3; ++zero) {
    Plan p = base;
    p.zero = zero;
    changes.consider(fmt::format("ZeRO {} -> {}", base.zero, zero), p);
  }
  for (Recompute r : {Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full}) {
    Plan p = base;
    p.recompute = r;
    changes.consider(fmt::format("recomputation {} -> {}", to_string(base.recompute), to_string(r)), p);
  }
  for (Schedule s : q.cluster.stack.schedules)
    for (int v : {1, 2, 3, 4, 6, 8}) {
      if ((v > 1) != (s == Schedule::interleaved)) continue;
      Plan p = base;
      p.schedule = s;
      p.virtual_stages = v;
      changes.consider(fmt::format("schedule {} v{} -> {} v{}", to_string(base.schedule), base.virtual_stages, to_string(s), v), p);
    }
  for (Precision f : {Precision::fp8, Precision::mxfp8}) {
    Plan p = base;
    p.precision = f;
    if (base.precision == Precision::bf16) changes.consider(fmt::format("precision {} -> {}", to_string(base.precision), to_string(f)), p);
  }
  return changes.best();
}

}  // namespace tessera
