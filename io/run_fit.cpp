#include "io/run_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <Eigen/Dense>
#include <ceres/ceres.h>
#include <oneapi/tbb/parallel_for.h>

#include "model/constants.hpp"
#include "model/step_cost_detail.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr double kNormal90 = 1.2815515655446004;  // 90 % quantile of the normal distribution

using Home = std::string;
Home home_of(const Constant& c) { return c.kind + "/" + c.preset + "/" + c.key; }

// The member of a cluster that a source key ("device.KEY", "level1.KEY", "stack.KEY") names.
double* member_of(Cluster& c, const std::string& source) {
  const auto dot = source.find('.');
  const std::string where = source.substr(0, dot), key = source.substr(dot + 1);
  if (where == "device") {
    for (const auto& f : device_constants())
      if (f.key == key) return &(c.device.*f.member);
  } else if (where == "stack") {
    for (const auto& f : stack_constants())
      if (f.key == key) return &(c.stack.*f.member);
  } else {
    const std::size_t i = std::stoul(where.substr(5));
    for (const auto& f : level_constants())
      if (f.key == key) return &(c.fabric.levels.at(i).*f.member);
  }
  return nullptr;
}

// A backward attention rate that no preset gives follows the forward one.
void follow_forward(MappedRun& run) {
  Stack& s = run.cluster.cluster.stack;
  auto given = [&](const char* key) { return run.cluster.sources.count(key) > 0; };
  if (!given("stack.attention_backward_ampere")) s.attention_backward_ampere = s.attention_ampere;
  if (!given("stack.attention_backward_hopper")) s.attention_backward_hopper = s.attention_hopper;
  if (!given("stack.attention_backward_blackwell")) s.attention_backward_blackwell = s.attention_blackwell;
}

void set_value(MappedRun& run, const std::vector<std::string>& keys, double value) {
  for (const auto& key : keys) *member_of(run.cluster.cluster, key) = value;
  follow_forward(run);
}

// Which members of which runs a constant reaches.
struct Reach {
  std::vector<std::pair<std::size_t, std::vector<std::string>>> runs;
};

std::vector<Reach> reaches_of(const std::vector<MappedRun>& runs, const std::vector<Constant>& constants) {
  std::map<Home, std::size_t> index;
  for (std::size_t i = 0; i < constants.size(); ++i) index[home_of(constants[i])] = i;
  std::vector<Reach> out(constants.size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::map<std::size_t, std::vector<std::string>> mine;
    for (const auto& [key, c] : runs[r].cluster.sources)
      if (const auto at = index.find(home_of(c)); at != index.end()) mine[at->second].push_back(key);
    for (auto& [i, keys] : mine) out[i].runs.emplace_back(r, std::move(keys));
  }
  return out;
}

class Residuals : public ceres::CostFunction {
 public:
  Residuals(std::vector<MappedRun> runs, std::vector<Constant> constants, RunFitOptions options)
      : runs_(std::move(runs)), constants_(std::move(constants)), options_(options), reach_(reaches_of(runs_, constants_)) {
    mutable_parameter_block_sizes()->push_back(static_cast<int>(constants_.size()));
    set_num_residuals(static_cast<int>(runs_.size() + constants_.size()));
  }

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const double* x = parameters[0];
    const std::size_t n = runs_.size(), k = constants_.size();
    std::vector<MappedRun> runs = runs_;
    for (std::size_t i = 0; i < k; ++i)
      for (const auto& [r, keys] : reach_[i].runs) set_value(runs[r], keys, std::exp(x[i]));
    std::vector<double> base(n);
    tbb::parallel_for(std::size_t{0}, n, [&](std::size_t r) { base[r] = std::log(predict_seconds(runs[r])); });
    for (std::size_t r = 0; r < n; ++r) residuals[r] = robust(r, base[r]);
    for (std::size_t i = 0; i < k; ++i) residuals[n + i] = options_.prior_scale * (x[i] - std::log(constants_[i].prior_centre)) / constants_[i].prior_width;
    if (!jacobians || !jacobians[0]) return true;
    double* j = jacobians[0];
    std::fill(j, j + (n + k) * k, 0.0);
    constexpr double kStep = 1e-4;
    tbb::parallel_for(std::size_t{0}, k, [&](std::size_t i) {
      for (const auto& [r, keys] : reach_[i].runs) {
        MappedRun run = runs[r];
        set_value(run, keys, std::exp(x[i] + kStep));
        j[r * k + i] = (robust(r, std::log(predict_seconds(run))) - residuals[r]) / kStep;
      }
      j[(n + i) * k + i] = options_.prior_scale / constants_[i].prior_width;
    });
    return true;
  }

 private:
  double robust(std::size_t r, double log_seconds) const {
    const double z = (log_seconds - std::log(*runs_[r].seconds)) / options_.sigma, a = std::abs(z), c = options_.huber;
    const double h = a < c ? a : std::sqrt(2 * c * a - c * c);
    return std::copysign(h, z) * std::sqrt(runs_[r].weight);
  }
  std::vector<MappedRun> runs_;
  std::vector<Constant> constants_;
  RunFitOptions options_;
  std::vector<Reach> reach_;
};

}  // namespace

double predict_seconds(const MappedRun& run) {
  return evaluate_modules(run.architecture, run.cluster.cluster, run.plan, run.sequence, run.modules).step_seconds;
}

std::vector<Constant> free_constants(const std::vector<MappedRun>& runs) {
  std::map<Home, Constant> found;
  for (const MappedRun& run : runs)
    if (run.seconds)
      for (const auto& [key, c] : run.cluster.sources)
        if (c.prior_width > 0) found.emplace(home_of(c), c);
  std::vector<Constant> out;
  for (auto& [home, c] : found) out.push_back(c);
  return out;
}

RunFit fit_constants(const std::vector<MappedRun>& all, const RunFitOptions& options) {
  std::vector<MappedRun> runs;
  for (const MappedRun& r : all)
    if (r.seconds) runs.push_back(r);
  std::vector<Constant> constants = free_constants(runs);
  if (!options.only.empty())
    std::erase_if(constants, [&](const Constant& c) { return std::find(options.only.begin(), options.only.end(), c.preset) == options.only.end(); });
  if (runs.empty() || constants.empty())
    throw RunError("nothing to fit: no run with a step time uses a preset constant that has a prior");
  std::vector<double> x;
  for (const Constant& c : constants) x.push_back(std::log(std::max(c.value, 1e-12)));
  auto* residuals = new Residuals(runs, constants, options);
  ceres::Problem problem;
  problem.AddResidualBlock(residuals, nullptr, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) {  // five widths, at most a factor of four
    const double reach = std::min(std::log(4.0), 5 * constants[i].prior_width), centre = std::log(constants[i].prior_centre);
    problem.SetParameterLowerBound(x.data(), int(i), centre - reach);
    problem.SetParameterUpperBound(x.data(), int(i), centre + reach);
    x[i] = std::clamp(x[i], centre - reach, centre + reach);
  }
  ceres::Solver::Options solver;
  solver.linear_solver_type = ceres::DENSE_QR;
  solver.max_num_iterations = options.iterations;
  solver.function_tolerance = 1e-5;
  solver.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(solver, &problem, &summary);

  const std::size_t n = runs.size(), k = x.size();
  std::vector<double> r(n + k), j((n + k) * k);
  const double* block[] = {x.data()};
  double* jacobian[] = {j.data()};
  residuals->Evaluate(block, r.data(), jacobian);
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> J(j.data(), long(n + k), long(k));
  const Eigen::MatrixXd covariance = (J.transpose() * J).ldlt().solve(Eigen::MatrixXd::Identity(long(k), long(k)));
  RunFit fit;
  fit.iterations = int(summary.iterations.size());
  fit.cost = summary.final_cost;
  for (std::size_t i = 0; i < k; ++i) {
    FreeConstant f{constants[i], 0, 0};
    f.constant.value = std::exp(x[i]);
    f.constant.fitted = true;
    const double sd = std::sqrt(std::max(0.0, covariance(long(i), long(i))));
    f.interval_low = f.constant.low = std::exp(x[i] - kNormal90 * sd);
    f.interval_high = f.constant.high = std::exp(x[i] + kNormal90 * sd);
    fit.constants.push_back(f);
  }
  return fit;
}

void set_constants(std::vector<MappedRun>& runs, const std::vector<FreeConstant>& values) {
  std::vector<Constant> constants;
  for (const auto& v : values) constants.push_back(v.constant);
  const auto reach = reaches_of(runs, constants);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const auto& [r, keys] : reach[i].runs) set_value(runs[r], keys, values[i].constant.value);
}

}  // namespace tessera
