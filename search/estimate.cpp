#include "search/estimate.hpp"

#include <chrono>
#include <cmath>
#include <map>

#include "search/walker.hpp"

namespace tessera {
namespace {

struct Sample {
  double seconds = 0, evaluations = 0, rows = 0, legal = 1;
};

const Sample& nearest(const std::map<std::uint64_t, Sample>& samples, std::uint64_t unit) {
  auto after = samples.lower_bound(unit);
  if (after == samples.begin()) return after->second;
  auto before = std::prev(after);
  if (after == samples.end() || unit - before->first <= after->first - unit) return before->second;
  return after->second;
}

}  // namespace

UnitCosts measure_units(const Space& space, double budget_seconds, const std::function<void(const UnitResult&)>& look) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::uint64_t units = space.units();
  std::map<std::uint64_t, Sample> samples;
  Walker walker(space);
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
    s.legal = std::max(1.0, static_cast<double>(space.unit(unit).legal));
    if (look) look(result);
  }
  UnitCosts out;
  out.measured = samples.size();
  out.unit_seconds.reserve(units);
  for (std::uint64_t u = 0; u < units; ++u) {
    const Sample& s = nearest(samples, u);
    const double scale = std::max(1.0, static_cast<double>(space.unit(u).legal)) / s.legal;
    out.unit_seconds.push_back(s.seconds * scale);
    out.core_seconds += s.seconds * scale;
    out.evaluations += s.evaluations * scale;
    out.rows += s.rows * scale;
  }
  return out;
}

}  // namespace tessera
