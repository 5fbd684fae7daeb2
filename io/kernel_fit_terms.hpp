// Terms of the kernel forms: what a fit may move, from where, how far, and how strongly it is held. The values are data
// (preset calibration/tables.toml), not code.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct FitTerm {
  std::string key, unit, meaning;
  double start = 0, low = 0, high = 0;             ///< bounds of the fit, physical
  double prior_centre = 0, prior_width = 0;        ///< Gaussian in the logarithm, relative width
  double value = 0;                                ///< fitted
  double interval_low = 0, interval_high = 0;      ///< 10-90 %
  bool at_bound = false;                           ///< the fit stopped at a bound: read the value as "no more than" or "no less than"
};

struct FitForm {
  std::string name;
  double spread = 0;  ///< scale of the soft-L1 loss, of log(predicted/measured)
  double small_weight = 1;  ///< weight of cells below the sizes of training, where a form knows such a class
  std::vector<FitTerm> terms;
  const FitTerm& term(const std::string& key) const;
  double value(const std::string& key) const { return term(key).value; }
};

/// The terms of a form with their starts. Throws RunError where the form is unknown.
FitForm fit_form(const std::string& name);

/// Predicted seconds of a cell, given the values of the terms in the form's order.
using CellSeconds = std::function<double(std::span<const double> terms, std::size_t cell)>;

/// Fits the terms to `measured` [s]: soft-L1 loss of log ratios times the cell's weight, priors, bounds; Levenberg-Marquardt on the logarithms. Cells of
/// equal `family` (shapes of one series, say) share their error: the intervals are those of a sandwich estimate over families.
/// Returns the predicted seconds. Throws RunError where a prediction is not positive and finite. Deterministic.
std::vector<double> solve_terms(FitForm&, const CellSeconds&, std::span<const double> measured, std::span<const double> weight,
                                std::span<const std::uint64_t> family);

}  // namespace tessera
