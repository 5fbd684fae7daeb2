#include "search/estimate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "search/walker.hpp"

namespace tessera {
namespace {

struct Sample {
  double seconds = 0, evaluations = 0, rows = 0, legal = 0;
};

const Sample& nearest(const std::map<std::uint64_t, Sample>& samples, std::uint64_t unit) {
  auto after = samples.lower_bound(unit);
  if (after == samples.begin()) return after->second;
  auto before = std::prev(after);
  if (after == samples.end() || unit - before->first <= after->first - unit) return before->second;
  return after->second;
}

/// What a unit costs by its number of legal plans: tables once, then a share for each plan.
struct Line {
  double unit = 0, plan = 0;  ///< [s], [s per legal plan]
  double at(double legal) const { return unit + plan * legal; }
};

/// Least squares over the samples, both constants >= 0. A ratio to the nearest sample instead would count the tables of a small
/// sample as often as a large neighbour has more plans.
Line fit_line(const std::map<std::uint64_t, Sample>& samples) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [unit, s] : samples) {
    ++n;
    x += s.legal;
    y += s.seconds;
    xx += s.legal * s.legal;
    xy += s.legal * s.seconds;
  }
  const double spread = n * xx - x * x;
  Line line;
  line.plan = spread > 0 ? std::max(0.0, (n * xy - x * y) / spread) : 0.0;
  line.unit = (y - line.plan * x) / n;
  if (line.unit < 0 && xx > 0) line = {0, xy / xx};
  return line;
}

}  // namespace

UnitCosts measure_units(const Space& space, double budget_seconds, const std::function<void(const UnitResult&)>& look) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::uint64_t units = space.units();
  std::map<std::uint64_t, Sample> samples;
  Walker walker(space);
  if (units > 0) walker.run(0);  // memory and tables that a sweep makes once
  // Multiples of the golden ratio: however many are taken, they lie evenly.
  constexpr double kGolden = 0.6180339887498949;
  for (std::uint64_t k = 0; k < units && (samples.empty() || elapsed() < budget_seconds); ++k) {
    const double at = kGolden * (static_cast<double>(k) + 0.5);
    const auto unit = std::min(units - 1, static_cast<std::uint64_t>((at - std::floor(at)) * static_cast<double>(units)));
    if (samples.count(unit) > 0) continue;
    const double before = elapsed();
    const UnitResult result = walker.run(unit);
    Sample& s = samples[unit];
    s.seconds = elapsed() - before;
    s.evaluations = static_cast<double>(result.counts.evaluations);
    s.rows = static_cast<double>(result.rows);
    s.legal = static_cast<double>(space.unit(unit).legal);
    if (look) look(result);
  }
  UnitCosts out;
  out.measured = samples.size();
  if (samples.empty()) return out;
  const Line line = fit_line(samples);
  double all_legal = 0, legal = 0, evaluations = 0, rows = 0, expected = 0;
  for (const auto& [unit, s] : samples) {
    legal += s.legal;
    evaluations += s.evaluations;
    rows += s.rows;
  }
  // A unit is off the line as its nearest sample is; together they are on it.
  out.unit_seconds.reserve(units);
  for (std::uint64_t u = 0; u < units; ++u) {
    const auto own = static_cast<double>(space.unit(u).legal);
    const Sample& s = nearest(samples, u);
    const double by_line = line.at(s.legal);
    out.unit_seconds.push_back(line.at(own) * (by_line > 0 ? s.seconds / by_line : 1.0));
    expected += out.unit_seconds.back();
    out.core_seconds += line.at(own);
    all_legal += own;
  }
  if (expected > 0)
    for (double& seconds : out.unit_seconds) seconds *= out.core_seconds / expected;
  if (legal > 0) {
    out.evaluations = evaluations * all_legal / legal;
    out.rows = rows * all_legal / legal;
  }
  return out;
}

}  // namespace tessera
