// The choice of least expected regret and how sure it is.
#include <algorithm>
#include <numeric>

#include "tessera/uncertainty.hpp"

namespace tessera {
namespace {

/// Quantile of `values`, linear between order statistics. Reorders the values.
double quantile(std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[below];
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(values.begin() + below + 1, values.end());
  return low + (position - static_cast<double>(below)) * (high - low);
}

void pair_with_choice(const Losses& losses, Decision& out) {
  const double* choice = losses.values.data() + out.choice * losses.draws;
  std::vector<double> difference(losses.draws);
  for (std::size_t i = 0; i < losses.candidates; ++i) {
    auto& verdict = out.verdicts[i];
    const double* row = losses.values.data() + i * losses.draws;
    std::size_t wins = 0;
    for (std::size_t d = 0; d < losses.draws; ++d) {
      difference[d] = row[d] - choice[d];
      wins += row[d] < choice[d];
    }
    verdict.beats_choice = static_cast<double>(wins) / static_cast<double>(losses.draws);
    verdict.paired_low = quantile(difference, 0.05);
    verdict.paired_median = quantile(difference, 0.50);
    verdict.paired_high = quantile(difference, 0.95);
    verdict.tied = i == out.choice || verdict.paired_low <= 0;
    out.near_ties += verdict.tied;
  }
}

}  // namespace

Decision decide(const Losses& losses) {
  Decision out;
  out.verdicts.resize(losses.candidates);
  std::vector<std::size_t> wins(losses.candidates, 0);
  std::vector<double> least(losses.values.begin(), losses.values.begin() + losses.draws);
  std::vector<std::size_t> best(losses.draws, 0);
  for (std::size_t i = 0; i < losses.candidates; ++i) {
    double sum = 0;
    for (std::size_t d = 0; d < losses.draws; ++d) {
      const double value = losses.at(i, d);
      sum += value;
      if (value < least[d]) least[d] = value, best[d] = i;
    }
    out.verdicts[i].mean = sum / static_cast<double>(losses.draws);
  }
  for (const std::size_t i : best) ++wins[i];
  out.least_mean = std::accumulate(least.begin(), least.end(), 0.0) / static_cast<double>(losses.draws);
  for (std::size_t i = 0; i < losses.candidates; ++i) {
    auto& verdict = out.verdicts[i];
    verdict.regret = std::max(0.0, verdict.mean - out.least_mean);
    verdict.best = static_cast<double>(wins[i]) / static_cast<double>(losses.draws);
    out.optimism += verdict.best * verdict.mean;
    if (verdict.mean < out.verdicts[out.choice].mean) out.choice = i;
  }
  out.optimism = std::max(0.0, out.optimism - out.least_mean);
  std::vector<std::size_t> order(losses.candidates);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return wins[a] > wins[b]; });
  std::size_t covered = 0;
  for (const std::size_t i : order) {
    if (10 * covered >= 9 * losses.draws) break;
    out.ninety_set.push_back(i);
    covered += wins[i];
  }
  pair_with_choice(losses, out);
  return out;
}

}  // namespace tessera
