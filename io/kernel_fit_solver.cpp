// Robust least squares over the cells of a table (io/kernel_fit_terms.hpp).
#include <algorithm>
#include <cmath>
#include <map>

#include <Eigen/Dense>
#include <ceres/ceres.h>
#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "io/kernel_fit_terms.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr double kNormal90 = 1.2815515655446004;  // 90 % quantile of the normal distribution
constexpr double kStep = 1e-5;                    // of the logarithm, for differences
constexpr int kMostIterations = 200;

class TableResiduals : public ceres::CostFunction {
 public:
  TableResiduals(const FitForm& form, const CellSeconds& seconds, std::span<const double> measured, std::span<const double> weight)
      : form_(form), seconds_(seconds), measured_(measured), weight_(weight) {
    mutable_parameter_block_sizes()->push_back(static_cast<int>(form.terms.size()));
    set_num_residuals(static_cast<int>(measured.size() + form.terms.size()));
  }

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const std::size_t n = measured_.size(), k = form_.terms.size();
    const std::vector<double> x(parameters[0], parameters[0] + k);
    const std::vector<double> base = log_ratios(x);
    for (std::size_t i = 0; i < n; ++i) {
      if (!std::isfinite(base[i])) return false;
      residuals[i] = robust(i, base[i]);
    }
    for (std::size_t j = 0; j < k; ++j) residuals[n + j] = (x[j] - std::log(form_.terms[j].prior_centre)) / form_.terms[j].prior_width;
    if (!jacobians || !jacobians[0]) return true;
    double* jacobian = jacobians[0];
    std::fill(jacobian, jacobian + (n + k) * k, 0.0);
    for (std::size_t j = 0; j < k; ++j) {
      std::vector<double> up = x, down = x;
      up[j] += kStep;
      down[j] -= kStep;
      const std::vector<double> above = log_ratios(up), below = log_ratios(down);
      for (std::size_t i = 0; i < n; ++i) jacobian[i * k + j] = (robust(i, above[i]) - robust(i, below[i])) / (2 * kStep);
      jacobian[(n + j) * k + j] = 1 / form_.terms[j].prior_width;
    }
    return true;
  }

  std::vector<double> predicted(const std::vector<double>& x) const {
    std::vector<double> terms(x.size()), out(measured_.size());
    for (std::size_t j = 0; j < x.size(); ++j) terms[j] = std::exp(x[j]);
    constexpr std::size_t kGrain = 256;
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, out.size(), kGrain), [&](const auto& range) {
      for (std::size_t i = range.begin(); i < range.end(); ++i) out[i] = seconds_(terms, i);
    });
    return out;
  }

 private:
  std::vector<double> log_ratios(const std::vector<double>& x) const {
    std::vector<double> out = predicted(x);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::log(out[i] / measured_[i]);
    return out;
  }
  /// Signed root of the soft-L1 loss, in units of the spread: its square is the loss.
  double robust(std::size_t i, double log_ratio) const {
    const double z = log_ratio / form_.spread;
    return std::copysign(std::sqrt(2 * weight_[i] * (std::sqrt(1 + z * z) - 1)), z);
  }
  const FitForm& form_;
  const CellSeconds& seconds_;
  std::span<const double> measured_, weight_;
};

/// Standard deviations of the logarithms: families of cells are the independent observations.
std::vector<double> sandwich(const TableResiduals& residuals, const FitForm& form, const std::vector<double>& x, std::span<const std::uint64_t> family) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::size_t n = family.size(), k = x.size();
  std::vector<double> r(n + k);
  Matrix J(static_cast<long>(n + k), static_cast<long>(k));
  const double* block[] = {x.data()};
  double* jacobian[] = {J.data()};
  residuals.Evaluate(block, r.data(), jacobian);
  std::map<std::uint64_t, Eigen::VectorXd> scores;
  for (std::size_t i = 0; i < n; ++i) {
    auto& score = scores.try_emplace(family[i], Eigen::VectorXd::Zero(static_cast<long>(k))).first->second;
    score += J.row(static_cast<long>(i)).transpose() * r[i];
  }
  Eigen::MatrixXd meat = Eigen::MatrixXd::Zero(static_cast<long>(k), static_cast<long>(k));
  for (const auto& [name, score] : scores) meat += score * score.transpose();
  // Few families estimate too small a spread.
  if (scores.size() > 1) meat *= static_cast<double>(scores.size()) / static_cast<double>(scores.size() - 1);
  for (std::size_t j = 0; j < k; ++j) meat(static_cast<long>(j), static_cast<long>(j)) += 1 / (form.terms[j].prior_width * form.terms[j].prior_width);
  const Eigen::MatrixXd bread = (J.transpose() * J).ldlt().solve(Eigen::MatrixXd::Identity(static_cast<long>(k), static_cast<long>(k)));
  const Eigen::MatrixXd covariance = bread * meat * bread;
  std::vector<double> out(k);
  for (std::size_t j = 0; j < k; ++j) out[j] = std::sqrt(std::max(0.0, covariance(static_cast<long>(j), static_cast<long>(j))));
  return out;
}

}  // namespace

std::vector<double> solve_terms(FitForm& form, const CellSeconds& seconds, std::span<const double> measured, std::span<const double> weight,
                                std::span<const std::uint64_t> family) {
  auto* residuals = new TableResiduals(form, seconds, measured, weight);
  std::vector<double> x;
  for (const FitTerm& t : form.terms) x.push_back(std::log(t.start));
  ceres::Problem problem;
  problem.AddResidualBlock(residuals, nullptr, x.data());
  for (std::size_t j = 0; j < x.size(); ++j) {
    problem.SetParameterLowerBound(x.data(), static_cast<int>(j), std::log(form.terms[j].low));
    problem.SetParameterUpperBound(x.data(), static_cast<int>(j), std::log(form.terms[j].high));
  }
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.max_num_iterations = kMostIterations;
  options.function_tolerance = 1e-7;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  if (!summary.IsSolutionUsable()) throw RunError(fmt::format("the fit of '{}' failed: {}", form.name, summary.message));
  const std::vector<double> deviation = sandwich(*residuals, form, x, family);
  for (std::size_t j = 0; j < x.size(); ++j) {
    FitTerm& t = form.terms[j];
    constexpr double kNear = 1e-3;
    t.value = std::exp(x[j]);
    t.at_bound = x[j] < std::log(t.low) + kNear || x[j] > std::log(t.high) - kNear;
    t.interval_low = std::max(t.low, std::exp(x[j] - kNormal90 * deviation[j]));
    t.interval_high = std::min(t.high, std::exp(x[j] + kNormal90 * deviation[j]));
  }
  return residuals->predicted(x);
}

}  // namespace tessera
