#include "io/fit_bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "tessera/error.hpp"
#include "tessera/uncertainty.hpp"

namespace tessera {
namespace {

/// Spread of the logs of the exponents at the second start.
constexpr double kPerturbation = 0.2;
/// More jackknife blocks than this do not change the acceleration.
constexpr std::size_t kMostBlocks = 200;

double quantile(const std::vector<double>& sorted, double q) {
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

double normal_distribution(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

std::map<std::string, std::vector<std::size_t>> groups_of(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<std::size_t>> out;
  for (std::size_t i = 0; i < runs.size(); ++i) out[runs[i].group].push_back(i);
  return out;
}

class Resampler {
 public:
  Resampler(const FitResult& fit, const FitData& data, const std::vector<Run>& runs, const FitOptions& options, const std::vector<double>& theta)
      : data_(data), options_(options) {
    for (auto& [name, indices] : groups_of(runs)) groups_.push_back(std::move(indices));
    if (options.bootstrap == Bootstrap::cluster && groups_.size() < 2)
      throw InputError("one group only", "whole groups are drawn with replacement", "name columns with --by that tell groups apart.");
    residuals(fit.space, data, theta, residuals_, nullptr);
  }

  FitData draw(std::size_t b) const {
    FitData out = data_;
    const auto uniform = [&](std::size_t i, std::size_t replicate) { return uniform_draw(options_.seed, DrawStream::resample, b, replicate, i); };
    const auto pick = [&](std::size_t count, std::size_t i, std::size_t replicate) { return std::min(count - 1, static_cast<std::size_t>(uniform(i, replicate) * static_cast<double>(count))); };
    if (options_.bootstrap == Bootstrap::wild) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double fitted = data_.log_loss[i] + residuals_[i];
        out.log_loss[i] = fitted + (uniform(i, 0) < 0.5 ? residuals_[i] : -residuals_[i]);
      }
      return out;
    }
    std::fill(out.weight.begin(), out.weight.end(), 0.0);
    if (options_.bootstrap == Bootstrap::cluster) {
      for (std::size_t g = 0; g < groups_.size(); ++g)
        for (const std::size_t i : groups_[pick(groups_.size(), g, 0)]) out.weight[i] += 1;
      return out;
    }
    if (options_.bootstrap == Bootstrap::pairs) {
      for (std::size_t i = 0; i < out.size(); ++i) out.weight[pick(out.size(), i, 0)] += 1;
      return out;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t i = 0; i < groups_[g].size(); ++i) out.weight[groups_[g][pick(groups_[g].size(), i, g)]] += 1;
    return out;
  }

  /// The data without jackknife block `block`.
  FitData without(std::size_t block) const {
    FitData out = data_;
    if (options_.bootstrap == Bootstrap::cluster) {
      for (const std::size_t i : groups_[block]) out.weight[i] = 0;
      return out;
    }
    for (std::size_t i = block; i < out.size(); i += blocks()) out.weight[i] = 0;
    return out;
  }
  std::size_t blocks() const { return options_.bootstrap == Bootstrap::cluster ? groups_.size() : std::min(kMostBlocks, data_.size()); }

 private:
  const FitData& data_;
  const FitOptions& options_;
  std::vector<std::vector<std::size_t>> groups_;
  std::vector<double> residuals_;
};

/// The optimum with its exponents moved and its amplitudes solved again on the resample.
std::vector<double> second_start(const FitSpace& space, const FitData& data, std::vector<double> theta, std::uint64_t seed, std::size_t b) {
  const auto infos = form_info(space.form).coefficients;
  for (std::size_t k = 0; k < theta.size(); ++k)
    if (infos[space.free[k]].kind == CoefficientKind::exponent) theta[k] += kPerturbation * normal_draw(seed, DrawStream::start, b, 1, k);
  std::vector<double> coefficients = space.coefficients(theta);
  solve_linear(space, data, coefficients);
  return space.theta(coefficients);
}

}  // namespace

FitInterval bca_interval(std::vector<double> draws, double estimate, const std::vector<double>& left_out) {
  FitInterval out;
  const auto count = static_cast<double>(draws.size());
  const double mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  double square = 0;
  for (const double value : draws) square += (value - mean) * (value - mean);
  out.se = std::sqrt(square / std::max(1.0, count - 1));
  std::sort(draws.begin(), draws.end());
  out.percentile_low = quantile(draws, 0.025), out.percentile_high = quantile(draws, 0.975);
  double below = 0;
  for (const double value : draws) below += value < estimate ? 1.0 : value == estimate ? 0.5 : 0.0;
  const double bias = normal_quantile(std::clamp(below / count, 0.5 / count, 1 - 0.5 / count));
  const double centre = std::accumulate(left_out.begin(), left_out.end(), 0.0) / static_cast<double>(std::max<std::size_t>(1, left_out.size()));
  double cube = 0, second = 0;
  for (const double value : left_out) {
    const double d = centre - value;
    cube += d * d * d, second += d * d;
  }
  const double acceleration = second > 0 ? cube / (6 * std::pow(second, 1.5)) : 0;
  const auto adjusted = [&](double q) {
    const double z = bias + normal_quantile(q), scale = 1 - acceleration * z;
    return normal_distribution(bias + z / (scale > 0.05 ? scale : 0.05));
  };
  out.low = quantile(draws, adjusted(0.025));
  out.high = quantile(draws, adjusted(0.975));
  if (out.low > out.high) std::swap(out.low, out.high);
  return out;
}

void bootstrap(FitResult& out, const FitData& data, const std::vector<Run>& runs, const FitOptions& options, const FitPrior& prior, const std::vector<double>& theta) {
  out.intervals.assign(out.space.base.size(), std::nullopt);
  if (options.bootstrap == Bootstrap::none || options.resamples == 0) return;
  const Resampler resampler(out, data, runs, options, theta);
  std::vector<FitPoint> points(options.resamples), left_out(resampler.blocks());
  tbb::parallel_for(std::size_t{0}, options.resamples, [&](std::size_t b) {
    const FitData sample = resampler.draw(b);
    FitPrior centre = prior;
    for (std::size_t k = 0; k < centre.mean.size(); ++k) centre.mean[k] += options.prior_sd * normal_draw(options.seed, DrawStream::resample, b, 1000000, k);
    points[b] = minimise(out.space, sample, options.huber, centre, theta);
    const FitPoint other = minimise(out.space, sample, options.huber, centre, second_start(out.space, sample, theta, options.seed, b));
    if (other.valid && (!points[b].valid || other.cost < points[b].cost)) points[b] = other;
  });
  tbb::parallel_for(std::size_t{0}, left_out.size(), [&](std::size_t block) { left_out[block] = minimise(out.space, resampler.without(block), options.huber, prior, theta); });
  std::erase_if(points, [](const FitPoint& p) { return !p.valid; });
  std::erase_if(left_out, [](const FitPoint& p) { return !p.valid; });
  out.resamples_failed = options.resamples - points.size();
  for (const auto& point : points) out.members.push_back(out.space.coefficients(point.theta));
  if (points.size() < 2) return;
  for (std::size_t k = 0; k < out.space.free.size(); ++k) {
    const std::size_t i = out.space.free[k];
    std::vector<double> draws, jackknife;
    for (const auto& member : out.members) draws.push_back(member[i]);
    for (const auto& point : left_out) jackknife.push_back(point.theta[k]);  // in logs, where the estimator is nearly linear
    out.intervals[i] = bca_interval(std::move(draws), out.coefficients[i], jackknife);
  }
}

}  // namespace tessera
