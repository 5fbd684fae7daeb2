// Fitting a law to a table of runs: several starts, bootstrap intervals, a report of which coefficients the data
// pin down, and the error on the largest runs, which the fit did not see. Same numbers for any number of threads.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/fit_problem.hpp"

namespace tessera {

enum class Bootstrap : std::uint8_t {
  none,
  wild,     ///< residuals of the log loss with random signs (Rademacher)
  pairs,    ///< runs drawn with replacement
  stratum,  ///< the same within each group of --by
  cluster   ///< whole groups of --by drawn with replacement
};

struct FitOptions {
  LawForm form = LawForm::chinchilla;
  std::vector<std::string> terms;        ///< terms kept; empty: all
  std::map<std::string, double> fixed;   ///< coefficients that keep a value
  LawConvention convention;
  double huber = 1e-3;                   ///< threshold on the log loss; 0: plain least squares
  std::size_t starts = 64;
  Bootstrap bootstrap = Bootstrap::wild;
  std::size_t resamples = 1000;
  std::vector<double> prior;             ///< coefficients a Gaussian prior on theta is centred on; empty: none
  double prior_sd = 1;                   ///< its width, in logs
  double held_out = 0.1;                 ///< share of the largest runs held out; 0: none
  bool held_out_by_group = false;        ///< that share of each group
  std::uint64_t seed = 1;
};

struct FitInterval {
  double low = 0, high = 0;  ///< 95 %, bias-corrected and accelerated (Efron 1987)
  double percentile_low = 0, percentile_high = 0;
  double se = 0;             ///< standard deviation of the resamples
};

/// How well the data pin a coefficient, from the Gauss-Newton matrix at the optimum.
struct Identified {
  double sd = 0;         ///< relative to the value (of its log), all others free
  std::string partner;   ///< the coefficient it trades off with most
  double correlation = 0;
  bool ridge = true;
};

struct FitResult {
  FitSpace space;
  std::vector<double> coefficients;
  double objective = 0, gradient = 0;
  double rmse = 0, rmse_log = 0, r2 = 0;   ///< on the fitted runs; rmse [nats]
  std::size_t starts = 0, starts_at_optimum = 0;  ///< valid starts; those within 1e-6 of the best cost
  std::vector<std::optional<FitInterval>> intervals;  ///< per coefficient; nullopt: fixed, or no bootstrap
  std::vector<std::vector<double>> members;  ///< coefficients of every valid resample
  std::size_t resamples_failed = 0;
  std::vector<std::optional<Identified>> identified;  ///< per coefficient
  std::vector<std::pair<double, std::vector<double>>> directions;  ///< sd and loadings on free coefficients, widest first
  std::optional<double> held_out_rmse, held_out_bias;  ///< [nats]
  std::size_t held_out_runs = 0;
  double held_out_from = 0;  ///< smallest size held out
};

/// Throws InputError (fewer runs than coefficients, no valid start, groups missing) with the numbers.
FitResult fit_law(const RunTable&, const FitOptions&);

/// The fit as a law: coefficients, intervals, ranges of the runs, scatter, up to `members` resamples.
Law fitted_law(const FitResult&, const RunTable&, const FitOptions&, std::size_t members);

}  // namespace tessera
