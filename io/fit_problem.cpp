#include "io/fit_problem.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <ceres/gradient_problem.h>
#include <ceres/gradient_problem_solver.h>
#include <ceres/jet.h>
#include <fmt/format.h>

#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::vector<std::string> term_names(LawForm form) {
  std::vector<std::string> out;
  for (const auto& info : form_info(form).coefficients)
    if (std::find(out.begin(), out.end(), info.term) == out.end()) out.emplace_back(info.term);
  return out;
}

/// Largest move of a coordinate (a log or an exponent) in one step: beyond it the quadratic model means nothing.
constexpr double kLongestStep = 2.0;

template <int N>
bool evaluate(const FitSpace& space, const FitData& data, std::span<const double> theta, std::vector<double>& r,
              std::vector<double>* jacobian) {
  using Jet = ceres::Jet<double, N>;
  const std::vector<double> values = space.coefficients(theta);
  const std::size_t free = space.free.size();
  r.resize(data.size());
  if (!jacobian) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      r[i] = data.weight[i] > 0 ? std::log(formula::predict(space.form, values.data(), data.points[i])) - data.log_loss[i] : 0;
      if (!std::isfinite(r[i])) return false;
    }
    return true;
  }
  std::array<Jet, N> c;
  for (int k = 0; k < N; ++k) c[k] = Jet(values[k]);
  for (std::size_t k = 0; k < free; ++k) c[space.free[k]].v[static_cast<int>(k)] = space.logged[k] ? values[space.free[k]] : 1.0;
  jacobian->assign(data.size() * free, 0);
  for (std::size_t i = 0; i < data.size(); ++i) {
    r[i] = 0;
    if (!(data.weight[i] > 0)) continue;
    const Jet predicted = formula::predict(space.form, c.data(), data.points[i]);
    r[i] = std::log(predicted.a) - data.log_loss[i];
    if (!std::isfinite(r[i])) return false;
    for (std::size_t k = 0; k < free; ++k) {
      const double slope = predicted.v[static_cast<int>(k)] / predicted.a;
      if (!std::isfinite(slope)) return false;
      (*jacobian)[i * free + k] = slope;
    }
  }
  return true;
}

double prior_cost(const FitPrior& prior, std::span<const double> theta) {
  double sum = 0;
  for (std::size_t k = 0; k < prior.mean.size(); ++k) sum += (theta[k] - prior.mean[k]) * (theta[k] - prior.mean[k]);
  return sum * prior.precision / 2;
}

/// Gradient of the Huber sum: weight · clamp(r) · J.
Eigen::VectorXd gradient_of(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior,
                            std::span<const double> theta, const std::vector<double>& r, const std::vector<double>& jacobian) {
  const std::size_t free = space.free.size();
  Eigen::VectorXd g = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(free));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double pull = data.weight[i] * (huber > 0 ? std::clamp(r[i], -huber, huber) : r[i]);
    for (std::size_t k = 0; k < free; ++k) g[static_cast<Eigen::Index>(k)] += pull * jacobian[i * free + k];
  }
  for (std::size_t k = 0; k < prior.mean.size(); ++k) g[static_cast<Eigen::Index>(k)] += prior.precision * (theta[k] - prior.mean[k]);
  return g;
}

/// Gauss-Newton matrix of Huber's reweighted squares.
Eigen::MatrixXd reweighted(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior,
                           const std::vector<double>& r, const std::vector<double>& jacobian) {
  const auto free = static_cast<Eigen::Index>(space.free.size());
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(free, free);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double weight = data.weight[i] * (huber > 0 && std::abs(r[i]) > huber ? huber / std::abs(r[i]) : 1.0);
    if (!(weight > 0)) continue;
    const Eigen::Map<const Eigen::VectorXd> row(jacobian.data() + i * space.free.size(), free);
    a.selfadjointView<Eigen::Lower>().rankUpdate(row, weight);
  }
  a = a.selfadjointView<Eigen::Lower>();
  if (!prior.mean.empty()) a.diagonal().array() += prior.precision;
  return a;
}

/// Levenberg-Marquardt on the reweighted squares; every accepted step lowers the exact cost.
void levenberg(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior, int most, FitPoint& at) {
  std::vector<double> r, jacobian;
  double damping = 1e-3, growth = 2;
  while (at.iterations < most && residuals(space, data, at.theta, r, &jacobian)) {
    const Eigen::VectorXd g = gradient_of(space, data, huber, prior, at.theta, r, jacobian);
    const Eigen::MatrixXd a = reweighted(space, data, huber, prior, r, jacobian);
    bool moved = false;
    double decrease = 0;
    for (int attempt = 0; attempt < 40 && !moved; ++attempt) {
      Eigen::MatrixXd damped = a;
      const double floor = 1e-14 * a.diagonal().maxCoeff();
      for (Eigen::Index k = 0; k < a.rows(); ++k) damped(k, k) += damping * std::max(a(k, k), floor);
      Eigen::VectorXd step = -damped.ldlt().solve(g);
      if (!step.allFinite()) step.setZero();
      if (const double longest = step.cwiseAbs().maxCoeff(); longest > kLongestStep) step *= kLongestStep / longest;
      std::vector<double> next = at.theta;
      for (std::size_t k = 0; k < next.size(); ++k) next[k] += step[static_cast<Eigen::Index>(k)];
      std::vector<double> r_next;
      double cost = INFINITY;
      if (residuals(space, data, next, r_next, nullptr)) cost = huber_sum(r_next, data.weight, huber) + prior_cost(prior, next);
      if (cost < at.cost) {
        decrease = at.cost - cost;
        at.theta = next, at.cost = cost, moved = true;
        damping = std::max(damping / 5, 1e-15), growth = 2;
      } else {
        damping *= growth, growth *= 2;
        if (damping > 1e12) break;
      }
    }
    ++at.iterations;
    if (!moved || decrease <= 1e-13 * at.cost) break;
  }
}

/// The exact objective for Ceres, in units of huber² (costs of a good fit are far below its absolute tolerances).
class CeresObjective final : public ceres::FirstOrderFunction {
 public:
  CeresObjective(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior)
      : space_(space), data_(data), huber_(huber), prior_(prior) {}
  bool Evaluate(const double* parameters, double* cost, double* gradient) const override {
    const std::span<const double> theta(parameters, space_.free.size());
    std::vector<double> r, jacobian;
    if (!residuals(space_, data_, theta, r, gradient ? &jacobian : nullptr)) return false;
    const double scale = 1 / (huber_ * huber_);
    *cost = scale * (huber_sum(r, data_.weight, huber_) + prior_cost(prior_, theta));
    if (gradient) {
      const Eigen::VectorXd g = gradient_of(space_, data_, huber_, prior_, theta, r, jacobian);
      for (std::size_t k = 0; k < theta.size(); ++k) gradient[k] = scale * g[static_cast<Eigen::Index>(k)];
    }
    return std::isfinite(*cost);
  }
  int NumParameters() const override { return static_cast<int>(space_.free.size()); }

 private:
  const FitSpace& space_;
  const FitData& data_;
  double huber_;
  const FitPrior& prior_;
};

void polish(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior, FitPoint& at) {
  ceres::GradientProblem problem(new CeresObjective(space, data, huber, prior));
  ceres::GradientProblemSolver::Options options;
  options.line_search_direction_type = ceres::BFGS;
  options.max_num_iterations = 500;
  options.function_tolerance = 1e-14;
  options.gradient_tolerance = 1e-9;
  options.parameter_tolerance = 1e-13;
  options.logging_type = ceres::SILENT;
  options.minimizer_progress_to_stdout = false;
  ceres::GradientProblemSolver::Summary summary;
  std::vector<double> theta = at.theta;
  ceres::Solve(options, problem, theta.data(), &summary);
  at.iterations += static_cast<int>(summary.iterations.size());
  std::vector<double> r;
  if (!residuals(space, data, theta, r, nullptr)) return;
  const double cost = huber_sum(r, data.weight, huber) + prior_cost(prior, theta);
  if (cost < at.cost) at.theta = theta, at.cost = cost;
}

}  // namespace

std::vector<double> FitSpace::coefficients(std::span<const double> theta) const {
  std::vector<double> out = base;
  for (std::size_t k = 0; k < free.size(); ++k) out[free[k]] = logged[k] ? std::exp(theta[k]) : theta[k];
  return out;
}

std::vector<double> FitSpace::theta(std::span<const double> values) const {
  std::vector<double> out(free.size());
  for (std::size_t k = 0; k < free.size(); ++k) out[k] = logged[k] ? std::log(values[free[k]]) : values[free[k]];
  return out;
}

FitSpace fit_space(LawForm form, const std::vector<std::string>& terms, const std::map<std::string, double>& fixed) {
  const auto infos = form_info(form).coefficients;
  if (form == LawForm::efficiency_leverage)
    throw InputError("form efficiency_leverage cannot be fitted to losses", "it predicts a multiplier of compute", "choose another form.");
  const auto names = term_names(form);
  for (const auto& term : terms)
    if (std::find(names.begin(), names.end(), term) == names.end())
      throw InputError(fmt::format("form {} has no term '{}'", form_info(form).name, term), fmt::format("it is {}", form_info(form).expression), suggestion(term, names));
  if (!terms.empty() && (form == LawForm::clark || form == LawForm::kaplan || form == LawForm::joint_moe))
    throw InputError(fmt::format("form {} has no subset of terms", form_info(form).name), "its parts share coefficients", "leave --terms out.");
  std::vector<std::string> known;
  for (const auto& info : infos) known.emplace_back(info.name);
  for (const auto& [name, value] : fixed)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(fmt::format("form {} has no coefficient '{}'", form_info(form).name, name), fmt::format("it is {}", form_info(form).expression), suggestion(name, known));
  FitSpace out;
  out.form = form;
  out.base.assign(infos.size(), 0);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const bool kept = terms.empty() || std::find(terms.begin(), terms.end(), infos[i].term) != terms.end();
    if (const auto at = fixed.find(std::string(infos[i].name)); at != fixed.end()) {
      out.base[i] = at->second;
      continue;
    }
    if (!kept) continue;
    out.free.push_back(i);
    out.logged.push_back(infos[i].kind != CoefficientKind::free);
  }
  if (out.free.empty()) throw InputError("nothing is left to fit", "every coefficient is fixed or left out", "free one.");
  return out;
}

FitData fit_data(const Law& law, const std::vector<Run>& runs) {
  FitData out;
  for (const auto& run : runs) {
    const LawPoint p = formula_point(law, run.point);
    if (!formula::in_domain(law.form, p))
      throw InputError(fmt::format("line {}: the run lies outside the formula's domain", run.line), fmt::format("form {} is {}", form_info(law.form).name, form_info(law.form).expression),
                       "correct the row or leave it out with --where.");
    out.points.emplace_back(p);
    out.log_loss.push_back(std::log(run.loss));
    out.weight.push_back(1);
  }
  return out;
}

bool residuals(const FitSpace& space, const FitData& data, std::span<const double> theta, std::vector<double>& r, std::vector<double>* jacobian) {
  switch (space.base.size()) {
    case 4: return evaluate<4>(space, data, theta, r, jacobian);
    case 5: return evaluate<5>(space, data, theta, r, jacobian);
    case 6: return evaluate<6>(space, data, theta, r, jacobian);
    case 7: return evaluate<7>(space, data, theta, r, jacobian);
    case 10: return evaluate<10>(space, data, theta, r, jacobian);
    case 11: return evaluate<11>(space, data, theta, r, jacobian);
    default: return evaluate<12>(space, data, theta, r, jacobian);
  }
}

double huber_sum(const std::vector<double>& r, const std::vector<double>& weight, double huber) {
  double sum = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double size = std::abs(r[i]);
    sum += weight[i] * (huber > 0 && size > huber ? huber * (size - huber / 2) : size * size / 2);
  }
  return sum;
}

FitPoint minimise(const FitSpace& space, const FitData& data, double huber, const FitPrior& prior, std::vector<double> theta) {
  FitPoint at;
  at.theta = std::move(theta);
  std::vector<double> r, jacobian;
  if (!residuals(space, data, at.theta, r, nullptr)) return at;
  at.cost = huber_sum(r, data.weight, huber) + prior_cost(prior, at.theta);
  const auto beyond = [&] { return huber > 0 && std::any_of(r.begin(), r.end(), [&](double v) { return std::abs(v) > huber; }); };
  // Reweighted squares converge only linearly while many residuals lie beyond the threshold: hand over early.
  levenberg(space, data, huber, prior, beyond() ? 25 : 400, at);
  if (residuals(space, data, at.theta, r, nullptr) && beyond())
    polish(space, data, huber, prior, at);
  else
    levenberg(space, data, huber, prior, 400, at);
  if (!residuals(space, data, at.theta, r, &jacobian)) return at;
  at.objective = huber_sum(r, data.weight, huber);
  const Eigen::VectorXd g = gradient_of(space, data, huber, prior, at.theta, r, jacobian);
  at.gradient = at.cost > 0 ? g.cwiseAbs().maxCoeff() / at.cost : 0;
  at.valid = std::isfinite(at.cost);
  return at;
}

}  // namespace tessera
