// The optimisation behind a fit: sum of Huber losses of log(predicted) - log(observed), weighted, over the free
// coefficients of a form. Amplitudes, exponents and constants are positive and move by their logs.
//
//   minimise(): Levenberg-Marquardt on Huber's reweighted squares (fast where few residuals exceed the threshold),
//   finished by Ceres' BFGS on the exact objective where some do. Derivatives are automatic (Ceres' Jets).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/fit_runs.hpp"
#include "model/law_formula.hpp"

namespace tessera {

/// Which coefficients move, and how.
struct FitSpace {
  LawForm form = LawForm::chinchilla;
  std::vector<double> base;         ///< all coefficients; fixed ones keep these values
  std::vector<std::size_t> free;    ///< indices of the ones that move
  std::vector<char> logged;         ///< per free coefficient: moves by its log
  std::vector<double> coefficients(std::span<const double> theta) const;
  std::vector<double> theta(std::span<const double> coefficients) const;
};
/// Free coefficients of a form. `terms` (empty: all) are kept, amplitudes of the others are 0; `fixed` coefficients
/// keep their value. Throws InputError for unknown names, a form that is no loss, or nothing left to fit.
FitSpace fit_space(LawForm, const std::vector<std::string>& terms, const std::map<std::string, double>& fixed);

struct FitData {
  std::vector<formula::LogPoint> points;  ///< formula points
  std::vector<double> log_loss;
  std::vector<double> weight;
  std::size_t size() const { return points.size(); }
};
FitData fit_data(const Law&, const std::vector<Run>&);

/// Gaussian prior on theta, in units of the objective: (theta - mean)^2 · precision / 2.
struct FitPrior {
  std::vector<double> mean;  ///< empty: none
  double precision = 0;
};

struct FitPoint {
  std::vector<double> theta;
  double objective = 0;      ///< sum of weighted Huber losses, without the prior
  double cost = 0;           ///< with it
  double gradient = 0;       ///< largest component of the gradient of the cost over its cost
  int iterations = 0;
  bool valid = false;
};

/// Residuals and, where `jacobian` is given, their derivatives by theta (row-major, rows x free). False where the
/// prediction is not positive and finite.
bool residuals(const FitSpace&, const FitData&, std::span<const double> theta, std::vector<double>& r,
               std::vector<double>* jacobian);
/// `huber` 0: plain squares r^2/2.
double huber_sum(const std::vector<double>& r, const std::vector<double>& weight, double huber);
FitPoint minimise(const FitSpace&, const FitData&, double huber, const FitPrior&, std::vector<double> theta);

/// Start number `index`: exponents drawn from the form's box, amplitudes by non-negative least squares, to which
/// every form but Kaplan's is linear. nullopt where the draw has no valid prediction.
std::optional<std::vector<double>> draw_start(const FitSpace&, const FitData&, std::uint64_t seed, std::uint64_t index);
/// Replaces the linear coefficients of `coefficients` by their least-squares values.
void solve_linear(const FitSpace&, const FitData&, std::vector<double>& coefficients);

/// Non-negative least squares min |A x - b|, columns of A one after the other (Lawson and Hanson 1974).
std::vector<double> nonnegative_least_squares(const std::vector<std::vector<double>>& columns, const std::vector<double>& b);

}  // namespace tessera
