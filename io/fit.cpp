#include "io/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <Eigen/Dense>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "io/fit_bootstrap.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

/// Best of `starts` draws, each minimised; ties go to the lower index.
struct Best {
  FitPoint point;
  std::size_t valid = 0, at_optimum = 0;
};
Best best_of_starts(const FitSpace& space, const FitData& data, const FitOptions& options, const FitPrior& prior, std::size_t starts) {
  std::vector<FitPoint> all(starts);
  tbb::parallel_for(std::size_t{0}, starts, [&](std::size_t i) {
    if (auto theta = draw_start(space, data, options.seed, i)) all[i] = minimise(space, data, options.huber, prior, std::move(*theta));
  });
  Best out;
  for (const auto& point : all) {
    if (!point.valid) continue;
    ++out.valid;
    if (!out.point.valid || point.cost < out.point.cost) out.point = point;
  }
  for (const auto& point : all) out.at_optimum += point.valid && point.cost <= out.point.cost * (1 + 1e-6);
  return out;
}

void describe(FitResult& out, const FitData& data, const std::vector<Run>& runs, std::span<const double> theta) {
  std::vector<double> r;
  residuals(out.space, data, theta, r, nullptr);
  double square = 0, square_log = 0, mean = 0, spread = 0;
  const auto n = static_cast<double>(runs.size());
  for (const auto& run : runs) mean += run.loss / n;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double error = runs[i].loss * std::expm1(r[i]);
    square += error * error, square_log += r[i] * r[i];
    spread += (runs[i].loss - mean) * (runs[i].loss - mean);
  }
  out.rmse = std::sqrt(square / n);
  out.rmse_log = std::sqrt(square_log / n);
  out.r2 = spread > 0 ? 1 - square / spread : 0;
}

/// A coefficient counts as identified where the data know it to 15 % (95 %, all others free), or to 50 % without a
/// trade-off against any other. On synthetic runs with the coverage of the mosaic law that marks beta and eta, as its
/// authors found; sizes of terms trade off against their exponents and the constant.
constexpr double kKnownSd = 0.075, kLooseSd = 0.25, kFreeCorrelation = 0.4;

void identify(FitResult& out, const FitData& data, std::span<const double> theta, const FitPrior& prior) {
  const auto free = static_cast<Eigen::Index>(out.space.free.size());
  std::vector<double> r, jacobian;
  residuals(out.space, data, theta, r, &jacobian);
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(free, free);
  double square = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Eigen::Map<const Eigen::VectorXd> row(jacobian.data() + i * out.space.free.size(), free);
    a += row * row.transpose();
    square += r[i] * r[i];
  }
  if (!prior.mean.empty()) a.diagonal().array() += prior.precision;
  const double degrees = std::max(1.0, static_cast<double>(data.size()) - static_cast<double>(free));
  const double variance = square / degrees;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(a);
  const double floor = 1e-15 * eigen.eigenvalues().maxCoeff();  // below: flat to rounding
  Eigen::VectorXd inverse = eigen.eigenvalues().cwiseMax(floor).cwiseInverse();
  const Eigen::MatrixXd covariance = variance * (eigen.eigenvectors() * inverse.asDiagonal() * eigen.eigenvectors().transpose());
  const auto infos = form_info(out.space.form).coefficients;
  out.identified.assign(infos.size(), std::nullopt);
  for (Eigen::Index k = 0; k < free; ++k) {
    Identified id;
    id.sd = std::sqrt(covariance(k, k));
    if (const auto at = static_cast<std::size_t>(k); !out.space.logged[at] && theta[at] != 0) id.sd /= std::abs(theta[at]);
    for (Eigen::Index l = 0; l < free; ++l) {
      if (l == k) continue;
      const double correlation = covariance(k, l) / std::sqrt(covariance(k, k) * covariance(l, l));
      if (std::abs(correlation) > std::abs(id.correlation)) id.correlation = correlation, id.partner = std::string(infos[out.space.free[static_cast<std::size_t>(l)]].name);
    }
    id.ridge = !(id.sd < kKnownSd || (id.sd < kLooseSd && std::abs(id.correlation) < kFreeCorrelation));
    out.identified[out.space.free[static_cast<std::size_t>(k)]] = id;
    std::vector<double> loadings(out.space.free.size());
    for (Eigen::Index l = 0; l < free; ++l) loadings[static_cast<std::size_t>(l)] = eigen.eigenvectors()(l, k);
    out.directions.emplace_back(std::sqrt(variance * inverse[k]), loadings);  // eigenvalues rise, so the widest come first
  }
}

double size_of(const LawPoint& p) { return p.active > 0 ? p.active : p.total; }

/// Indices of the largest runs, of all or of each group.
std::vector<char> largest(const std::vector<Run>& runs, double share, bool by_group) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) groups[by_group ? runs[i].group : ""].push_back(i);
  std::vector<char> out(runs.size(), 0);
  for (auto& [name, indices] : groups) {
    // Equal sizes: the run with more tokens is the larger one, then the later row.
    std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) {
      const auto &p = runs[a].point, &q = runs[b].point;
      return size_of(p) != size_of(q) ? size_of(p) < size_of(q) : p.tokens < q.tokens;
    });
    const auto count = static_cast<std::size_t>(std::ceil(share * static_cast<double>(indices.size())));
    for (std::size_t k = indices.size() - count; k < indices.size(); ++k) out[indices[k]] = 1;
  }
  return out;
}

void hold_out(FitResult& out, const RunTable& table, const Law& law, const FitOptions& options, const FitPrior& prior, std::span<const double> theta) {
  const auto held = largest(table.runs, options.held_out, options.held_out_by_group);
  std::vector<Run> seen, unseen;
  for (std::size_t i = 0; i < held.size(); ++i) (held[i] ? unseen : seen).push_back(table.runs[i]);
  if (unseen.empty() || seen.size() < out.space.free.size())
    throw InputError(fmt::format("holding out {} of {} runs leaves {} for {} coefficients", unseen.size(), table.runs.size(), seen.size(), out.space.free.size()),
                     "a fit needs at least as many runs", "give a smaller --held-out, or 0.");
  const FitData data = fit_data(law, seen), rest = fit_data(law, unseen);
  FitPoint best = minimise(out.space, data, options.huber, prior, {theta.begin(), theta.end()});
  const Best fresh = best_of_starts(out.space, data, options, prior, std::min<std::size_t>(options.starts, 16));
  if (fresh.point.valid && (!best.valid || fresh.point.cost < best.cost)) best = fresh.point;
  std::vector<double> r;
  if (!best.valid || !residuals(out.space, rest, best.theta, r, nullptr)) return;
  double square = 0, bias = 0;
  out.held_out_from = INFINITY;
  for (std::size_t i = 0; i < unseen.size(); ++i) {
    const double error = unseen[i].loss * std::expm1(r[i]);
    square += error * error, bias += error;
    out.held_out_from = std::min(out.held_out_from, size_of(unseen[i].point));
  }
  out.held_out_runs = unseen.size();
  out.held_out_rmse = std::sqrt(square / static_cast<double>(unseen.size()));
  out.held_out_bias = bias / static_cast<double>(unseen.size());
}

}  // namespace

FitResult fit_law(const RunTable& table, const FitOptions& options) {
  Law law;
  law.form = options.form, law.convention = options.convention;
  FitResult out;
  out.space = fit_space(options.form, options.terms, options.fixed);
  if (table.runs.size() < out.space.free.size())
    throw InputError(fmt::format("{} runs for {} coefficients", table.runs.size(), out.space.free.size()), "a fit needs at least as many runs",
                     "give more runs, or fewer terms with --terms.");
  const FitData data = fit_data(law, table.runs);
  FitPrior prior;
  Best best = best_of_starts(out.space, data, options, prior, options.starts);
  if (!best.point.valid) throw InputError("no start gives a valid prediction", fmt::format("{} starts were drawn", options.starts), "check the columns and units of the runs.");
  if (!options.prior.empty()) {
    // The prior is a Gaussian in the same probability model as the residuals: its precision is in units of their variance.
    std::vector<double> r;
    residuals(out.space, data, best.point.theta, r, nullptr);
    const double square = std::inner_product(r.begin(), r.end(), r.begin(), 0.0);
    const double variance = square / std::max<double>(1, static_cast<double>(data.size() - out.space.free.size()));
    prior.mean = out.space.theta(options.prior);
    prior.precision = variance / (options.prior_sd * options.prior_sd);
    best = best_of_starts(out.space, data, options, prior, options.starts);
  }
  const FitPoint& point = best.point;
  out.coefficients = out.space.coefficients(point.theta);
  out.objective = point.objective, out.gradient = point.gradient;
  out.starts = best.valid, out.starts_at_optimum = best.at_optimum;
  describe(out, data, table.runs, point.theta);
  identify(out, data, point.theta, prior);
  if (options.held_out > 0) hold_out(out, table, law, options, prior, point.theta);
  bootstrap(out, data, table.runs, options, prior, point.theta);
  return out;
}

Law fitted_law(const FitResult& fit, const RunTable& table, const FitOptions& options, std::size_t members) {
  Law law;
  law.form = options.form;
  law.title = fmt::format("Fit of {} runs", table.runs.size());
  law.source = table.file;
  law.evidence = fmt::format("own fit: Huber {:g} on log loss, {} starts, {} resamples", options.huber, options.starts, fit.members.size());
  law.coefficients = fit.coefficients;
  law.convention = options.convention;
  law.noise_sd = fit.rmse * std::sqrt(static_cast<double>(table.runs.size()) / std::max(1.0, static_cast<double>(table.runs.size()) - static_cast<double>(fit.space.free.size())));
  const auto infos = form_info(law.form).coefficients;
  bool any_interval = false;
  for (const auto& interval : fit.intervals) any_interval = any_interval || interval;
  if (any_interval)
    for (const auto& interval : fit.intervals) law.intervals.push_back(interval ? std::optional(LawInterval{interval->low, interval->high}) : std::nullopt);
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (fit.identified[i] && !fit.identified[i]->ridge) law.identified.emplace_back(infos[i].name);
  using Field = double LawPoint::*;
  const std::pair<LawAxis, Field> fields[] = {{LawAxis::total, &LawPoint::total}, {LawAxis::active, &LawPoint::active},
      {LawAxis::sparsity, &LawPoint::sparsity}, {LawAxis::tokens, &LawPoint::tokens}, {LawAxis::split, &LawPoint::split},
      {LawAxis::experts, &LawPoint::experts}, {LawAxis::active_experts, &LawPoint::active_experts}};
  for (const auto& [axis, field] : fields) {
    const auto [low, high] = std::minmax_element(table.runs.begin(), table.runs.end(), [f = field](const Run& a, const Run& b) { return a.point.*f < b.point.*f; });
    if (axis == LawAxis::sparsity ? table.columns.count("sparsity") > 0 : low->point.*field > 0) law.ranges.push_back({axis, low->point.*field, high->point.*field});
  }
  if (!form_info(law.form).has_data_axis && table.runs.front().point.tokens > 0) law.fixed_tokens = table.runs.front().point.tokens;
  law.members.assign(fit.members.begin(), fit.members.begin() + static_cast<std::ptrdiff_t>(std::min(members, fit.members.size())));
  return law;
}

}  // namespace tessera
