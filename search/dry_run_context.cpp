#include "search/dry_run_context.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <queue>

namespace tessera {
namespace {

struct Worker {
  double free_at;
  int rank;
  bool has_run;
  bool operator>(const Worker& o) const { return free_at != o.free_at ? free_at > o.free_at : rank > o.rank; }
};

struct Fetched {
  double ready;
  double seconds;
};

/// The shared counter: one fetch at a time.
class Counter {
 public:
  Counter(WorkSource& work, std::span<const double> seconds, const MachineModel& model) : work_(work), seconds_(seconds), model_(model) {}
  std::optional<Fetched> fetch(double now) {
    const auto unit = work_.next();
    if (!unit) return std::nullopt;
    free_at_ = std::max(free_at_, now) + model_.fetch_service_seconds;
    busy_ += model_.fetch_service_seconds;
    return Fetched{free_at_ + model_.fetch_latency_seconds, seconds_[*unit]};
  }
  double busy() const { return busy_; }

 private:
  WorkSource& work_;
  std::span<const double> seconds_;
  const MachineModel& model_;
  double free_at_ = 0, busy_ = 0;
};

const char* find_bound(const Rehearsal& r, const MachineModel& m, std::size_t units, double workers) {
  constexpr double kGood = 0.9;
  if (r.efficiency >= kGood) return "none: at least 90 % of the threads' time is evaluation";
  if (static_cast<double>(units) < workers) return "fewer units than threads";
  if (r.ideal_seconds < m.start_seconds / (1 - kGood)) return "the start of a rank weighs against so short a sweep";
  if (r.longest_unit > (1 - kGood) * r.ideal_seconds) return "the longest unit against the time of all: the last one is waited for";
  if (r.counter_share > kGood / 2) return "the shared counter";
  return "latency of the counter and of the file system";
}

}  // namespace

Rehearsal rehearse(DryRunContext& context, std::span<const double> unit_seconds, std::span<const UnitWork> expected, int threads,
                   const MachineModel& model) {
  std::vector<std::uint64_t> units(unit_seconds.size());
  std::iota(units.begin(), units.end(), std::uint64_t{0});
  const auto work = context.share(work_order(expected, std::move(units)));
  Counter counter(*work, unit_seconds, model);
  const auto ranks = static_cast<std::size_t>(context.ranks());
  std::vector<std::deque<Fetched>> waiting(ranks);      // by rank: fetched, not yet running
  std::vector<std::uint64_t> in_hand(ranks);            // by rank: waiting or running
  std::priority_queue<Worker, std::vector<Worker>, std::greater<>> workers;
  for (int t = 0; t < threads; ++t)
    for (std::size_t r = 0; r < ranks; ++r) workers.push({model.start_seconds, static_cast<int>(r), false});
  Rehearsal out;
  double end = model.start_seconds;
  while (!workers.empty()) {
    const Worker w = workers.top();
    workers.pop();
    const auto rank = static_cast<std::size_t>(w.rank);
    auto& mine = waiting[rank];
    if (w.has_run) --in_hand[rank];
    while (in_hand[rank] < units_in_hand(unit_seconds.size() - work->taken(), context.ranks(), threads)) {  // as Rank::fetch()
      const auto next = counter.fetch(w.free_at);
      if (!next) break;
      mine.push_back(*next);
      ++in_hand[rank];
    }
    if (mine.empty()) continue;
    const Fetched unit = mine.front();
    mine.pop_front();
    const double done = std::max(w.free_at, unit.ready) + unit.seconds;
    out.busy_seconds += unit.seconds;
    out.longest_unit = std::max(out.longest_unit, unit.seconds);
    end = std::max(end, done);
    workers.push({done, w.rank, true});
  }
  // The main thread writes beside its crew; what it writes last is waited for.
  const double writing = (1.0 + (end - model.start_seconds) / model.segment_period_seconds) * model.segment_seconds;
  end = std::max(end + model.segment_seconds, model.start_seconds + writing);
  out.seconds = end + model.reduce_seconds * std::ceil(std::log2(static_cast<double>(ranks)));
  const double all = static_cast<double>(ranks) * threads;
  out.ideal_seconds = out.busy_seconds / all;
  out.efficiency = out.busy_seconds / (all * out.seconds);
  out.counter_share = counter.busy() / out.seconds;
  out.bound = find_bound(out, model, unit_seconds.size(), all);
  return out;
}

}  // namespace tessera
