#include <algorithm>
#include <cstring>

#include "search/agreement.hpp"
#include "search/context.hpp"
#include "search/crew.hpp"
#include "search/work_order.hpp"
#include "tessera/error.hpp"
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kProgressSeconds = 0.25;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Asks the sink of rank 0 for units of an earlier run and tells all ranks which are left. Collective.
std::vector<std::uint64_t> left_over(const Space& space, Context& context, UnitSink& sink, Reducer& reducer) {
  Bytes finished(space.units(), 0);
  together(context, [&] {
    if (context.rank() != 0) return;
    for (const UnitSummary& unit : sink.finished()) {
      if (unit.unit >= finished.size()) throw RunError("a finished unit belongs to another study");
      if (finished[unit.unit]) continue;
      finished[unit.unit] = 1;
      reducer.add(unit);
    }
  });
  context.broadcast(finished, 0);
  std::vector<std::uint64_t> units;
  for (std::uint64_t u = 0; u < finished.size(); ++u)
    if (!finished[u]) units.push_back(u);
  return units;
}

/// Share of the expected work that is given out, by the number of units given out: the larger ones go first.
class WorkShare {
 public:
  WorkShare(std::span<const UnitWork> units, std::span<const std::uint64_t> order) {
    double all = 0, left = 0;
    for (const UnitWork& unit : units) all += unit.work;
    for (const std::uint64_t unit : order) left += units[unit].work;
    share_.push_back(all > 0 ? (all - left) / all : 1.0);  // of an earlier run
    for (const std::uint64_t unit : order) share_.push_back(share_.back() + (all > 0 ? units[unit].work / all : 0.0));
  }
  std::uint64_t units() const { return share_.size() - 1; }
  double reused() const { return share_.front(); }
  double at(std::uint64_t taken) const { return taken >= units() ? 1.0 : std::min(1.0, share_[taken]); }

 private:
  std::vector<double> share_;
};

/// The main loop of a rank: fetch, feed the crew, write, poll.
class Rank {
 public:
  Rank(const Space& space, Context& context, UnitSink& sink, const SweepOptions& options, Reducer& reducer,
       const WorkShare& share, Clock::time_point start)
      : space_(space), context_(context), sink_(sink), options_(options), reducer_(reducer), share_(share), start_(start) {}

  void run(WorkSource& work) {
    Crew crew(space_, options_.threads);
    try {
      while (true) {
        fetch(work, crew);
        if (crew.in_hand() == 0) break;
        if (auto result = crew.take()) {
          reducer_.add(*result);
          sink_.write(std::move(*result));
        }
        context_.poll();
        if (must_stop()) work.close();
        report(work, false);
      }
      sink_.flush();
      report(work, true);
    } catch (...) {
      work.close();  // other ranks finish what they have in hand, then all stop
      throw;
    }
  }

 private:
  void fetch(WorkSource& work, Crew& crew) {
    while (!all_given_ && crew.in_hand() < units_in_hand(share_.units() - work.taken(), context_.ranks(), options_.threads)) {
      if (const auto unit = work.next()) crew.post(*unit);
      else all_given_ = true;
    }
  }
  bool must_stop() const {
    return (options_.stop && options_.stop()) ||
           (options_.time_limit_seconds && seconds_since(start_) >= *options_.time_limit_seconds);
  }
  void report(const WorkSource& work, bool last) {
    if (!options_.progress || context_.rank() != 0) return;
    const double now = seconds_since(start_);
    if (!last && now < next_report_) return;
    next_report_ = now + kProgressSeconds;
    const std::uint64_t reused = space_.units() - share_.units();
    options_.progress({space_.units(), reused + work.taken(), reused, share_.at(work.taken()), share_.reused(), now, context_.ranks(), &reducer_});
  }

  const Space& space_;
  Context& context_;
  UnitSink& sink_;
  const SweepOptions& options_;
  Reducer& reducer_;
  const WorkShare& share_;
  Clock::time_point start_;
  double next_report_ = 0;
  bool all_given_ = false;
};

}  // namespace

SweepResult sweep(const Study& study, const Space& space, Context& context, UnitSink& sink, const SweepOptions& options) {
  const auto start = Clock::now();
  Reducer reducer(study, space);
  const auto expected = expected_work(space);
  const auto units = work_order(expected, left_over(space, context, sink, reducer));
  const WorkShare share(expected, units);
  const std::uint64_t reused = space.units() - units.size();
  Failure failure;
  {
    const auto work = context.share(units);
    try {
      Rank(space, context, sink, options, reducer, share, start).run(*work);
    } catch (...) {
      failure = Failure::current();
    }
    context.wait_for_all();  // before the source goes: rank 0 serves the counter until the last rank is done
  }
  agree(context, failure);
  context.reduce([&] { return reducer.pack(); }, [&](std::span<const std::uint8_t> bytes) { reducer.merge(bytes); });
  SweepResult result = reducer.result();
  Bytes finished(sizeof(std::uint64_t));
  std::memcpy(finished.data(), &result.units_done, finished.size());
  context.broadcast(finished, 0);
  std::uint64_t done = 0;
  std::memcpy(&done, finished.data(), finished.size());
  result.interrupted = done < space.units();
  result.units_reused = reused;
  result.ranks = context.ranks();
  result.threads = options.threads;
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace tessera
