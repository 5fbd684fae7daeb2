// Starting points: exponents are drawn, amplitudes solved for. A grid over all coefficients wastes most of its
// points far from any minimum; for given exponents the best amplitudes are a linear problem.
#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

#include "io/fit_problem.hpp"
#include "tessera/uncertainty.hpp"

namespace tessera {
namespace {

/// Where a coefficient that is not solved for is drawn: uniform, or log-uniform.
struct Box {
  double low, high;
  bool logarithmic;
};

/// Published exponents lie between 0.05 and 0.75; the box leaves room on both sides.
constexpr Box kExponent{0.02, 1.5, true};

bool is_linear(LawForm form, std::string_view name, CoefficientKind kind) {
  switch (form) {
    case LawForm::clark: return name == "a" || name == "b" || name == "c" || name == "d";
    case LawForm::kaplan: return false;
    case LawForm::zhao: return name != "alpha" && name != "beta" && name != "k" && name != "h";
    case LawForm::joint_moe: return name == "a" || name == "b" || name == "c";
    case LawForm::frantar: return name == "aS" || name == "cS" || name == "c";
    default: return kind == CoefficientKind::amplitude || kind == CoefficientKind::constant;
  }
}

Box box_of(LawForm form, std::string_view name, CoefficientKind kind) {
  if (name == "Es") return {1.2, 8, true};     // saturation starts near one expert
  if (name == "Em") return {50, 5000, true};   // and ends at hundreds
  if (form == LawForm::kaplan && kind == CoefficientKind::amplitude) return {1e10, 1e18, true};
  if (form == LawForm::frantar && name == "aD") return {1e6, 1e11, true};
  if (form == LawForm::zhao && (name == "k" || name == "h")) return {1e-4, 1, true};
  if (form == LawForm::joint_moe && (name == "alpha" || name == "beta")) return {-0.6, -0.05, false};
  if (form == LawForm::joint_moe && (name == "gamma" || name == "zeta")) return {-0.05, 0.05, false};
  if (kind == CoefficientKind::free) return {-1, 1, false};
  return kExponent;
}

}  // namespace

std::vector<double> nonnegative_least_squares(const std::vector<std::vector<double>>& columns, const std::vector<double>& b) {
  const auto n = static_cast<Eigen::Index>(b.size()), k = static_cast<Eigen::Index>(columns.size());
  Eigen::MatrixXd a(n, k);
  Eigen::VectorXd scale(k);
  for (Eigen::Index j = 0; j < k; ++j) {
    a.col(j) = Eigen::Map<const Eigen::VectorXd>(columns[static_cast<std::size_t>(j)].data(), n);
    const double norm = a.col(j).norm();
    scale[j] = norm > 0 && std::isfinite(norm) ? norm : 1;
    a.col(j) /= scale[j];
  }
  const Eigen::Map<const Eigen::VectorXd> target(b.data(), n);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(k);
  std::vector<char> passive(static_cast<std::size_t>(k), 0);
  const double tolerance = 1e-12 * target.norm();
  for (Eigen::Index round = 0; round < 3 * k; ++round) {
    const Eigen::VectorXd w = a.transpose() * (target - a * x);
    Eigen::Index best = -1;
    for (Eigen::Index j = 0; j < k; ++j)
      if (!passive[static_cast<std::size_t>(j)] && w[j] > tolerance && (best < 0 || w[j] > w[best])) best = j;
    if (best < 0) break;
    passive[static_cast<std::size_t>(best)] = 1;
    for (Eigen::Index inner = 0; inner < 3 * k; ++inner) {
      std::vector<Eigen::Index> set;
      for (Eigen::Index j = 0; j < k; ++j)
        if (passive[static_cast<std::size_t>(j)]) set.push_back(j);
      const Eigen::VectorXd z = a(Eigen::all, set).colPivHouseholderQr().solve(target);
      double step = 1;
      for (std::size_t i = 0; i < set.size(); ++i)
        if (z[static_cast<Eigen::Index>(i)] <= 0) step = std::min(step, x[set[i]] / (x[set[i]] - z[static_cast<Eigen::Index>(i)]));
      for (std::size_t i = 0; i < set.size(); ++i) x[set[i]] += step * (z[static_cast<Eigen::Index>(i)] - x[set[i]]);
      if (step == 1) break;
      for (const Eigen::Index j : set)
        if (x[j] <= 1e-15) x[j] = 0, passive[static_cast<std::size_t>(j)] = 0;
    }
  }
  std::vector<double> out(columns.size());
  for (Eigen::Index j = 0; j < k; ++j) out[static_cast<std::size_t>(j)] = x[j] / scale[j];
  return out;
}

void solve_linear(const FitSpace& space, const FitData& data, std::vector<double>& coefficients) {
  const auto infos = form_info(space.form).coefficients;
  const bool logarithmic = space.form == LawForm::clark;  // linear in log10 L
  std::vector<std::size_t> linear;
  for (const std::size_t i : space.free)
    if (is_linear(space.form, infos[i].name, infos[i].kind)) linear.push_back(i);
  if (linear.empty()) return;
  const auto column_of = [&](const std::vector<double>& c) {
    std::vector<double> out(data.size());
    for (std::size_t i = 0; i < data.size(); ++i)
      out[i] = logarithmic ? formula::clark_log10(c.data(), data.points[i]) : formula::predict(space.form, c.data(), data.points[i]);
    return out;
  };
  std::vector<double> rest = coefficients;
  for (const std::size_t i : linear) rest[i] = 0;
  const std::vector<double> offset = column_of(rest);
  std::vector<std::vector<double>> columns;
  std::vector<double> target(data.size()), row_scale(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double loss = std::exp(data.log_loss[i]);
    // Errors of the log are relative errors of the loss.
    row_scale[i] = std::sqrt(data.weight[i]) / (logarithmic ? 1 : loss);
    target[i] = row_scale[i] * ((logarithmic ? data.log_loss[i] / M_LN10 : loss) - offset[i]);
  }
  std::vector<std::pair<std::size_t, double>> owner;  // coefficient and sign of each column
  for (const std::size_t i : linear) {
    std::vector<double> unit = rest;
    unit[i] = 1;
    std::vector<double> column = column_of(unit);
    for (std::size_t row = 0; row < data.size(); ++row) column[row] = row_scale[row] * (column[row] - offset[row]);
    if (!std::all_of(column.begin(), column.end(), [](double v) { return std::isfinite(v); })) return;
    columns.push_back(column);
    owner.emplace_back(i, 1.0);
    if (infos[i].kind != CoefficientKind::free) continue;
    for (double& v : column) v = -v;
    columns.push_back(column);
    owner.emplace_back(i, -1.0);
  }
  const auto x = nonnegative_least_squares(columns, target);
  for (const std::size_t i : linear) coefficients[i] = 0;
  for (std::size_t j = 0; j < x.size(); ++j) coefficients[owner[j].first] += owner[j].second * x[j];
  // A positive coefficient must start above 0 to move by its log: a hundredth of a loss of 1 where it was excluded.
  for (std::size_t j = 0; j < x.size(); ++j) {
    const std::size_t i = owner[j].first;
    if (infos[i].kind == CoefficientKind::free || coefficients[i] > 0) continue;
    double largest = 0;
    for (std::size_t row = 0; row < data.size(); ++row) largest = std::max(largest, std::abs(columns[j][row]));
    coefficients[i] = largest > 0 ? 0.01 / largest : 1e-6;
  }
}

std::optional<std::vector<double>> draw_start(const FitSpace& space, const FitData& data, std::uint64_t seed, std::uint64_t index) {
  const auto infos = form_info(space.form).coefficients;
  std::vector<double> coefficients = space.base;
  for (const std::size_t i : space.free) {
    if (is_linear(space.form, infos[i].name, infos[i].kind)) continue;
    const Box box = box_of(space.form, infos[i].name, infos[i].kind);
    const double u = uniform_draw(seed, DrawStream::start, index, i, 0);
    coefficients[i] = box.logarithmic ? box.low * std::pow(box.high / box.low, u) : box.low + u * (box.high - box.low);
  }
  solve_linear(space, data, coefficients);
  const std::vector<double> theta = space.theta(coefficients);
  std::vector<double> r;
  if (!std::all_of(theta.begin(), theta.end(), [](double v) { return std::isfinite(v); }) || !residuals(space, data, theta, r, nullptr)) return std::nullopt;
  return theta;
}

}  // namespace tessera
