// Fitting constants of devices, links and stacks to measured step times: the free ones are those with a prior in their preset.
// Residual: log(predicted/measured)/sigma, Huber beyond 1.5 sigma, weighted by 1/sqrt(repetitions of the plan); priors are
// Gaussian in the logarithm with the stated relative width. dense-step-time.md section 7, moe-step-time.md section 6.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "io/run_mapping.hpp"

namespace tessera {

/// Predicted step time of a run [s].
double predict_seconds(const MappedRun&);

struct FreeConstant {
  Constant constant;            ///< with its home, prior and fitted value
  double interval_low = 0, interval_high = 0;  ///< 10-90 %, Gauss-Newton with the prior
};

struct RunFit {
  std::vector<FreeConstant> constants;
  int iterations = 0;
  double cost = 0;
};

struct RunFitOptions {
  double sigma = 0.04;       ///< spread of repeated publications
  double huber = 1.5;        ///< in sigma
  double prior_scale = 1;    ///< 0: no priors
  int iterations = 30;
  /// Only these stacks, devices or links (by home preset); empty: every free constant.
  std::vector<std::string> only;
};

/// Every constant with a prior that some run uses, sorted by kind, preset, key.
std::vector<Constant> free_constants(const std::vector<MappedRun>&);

/// Fits the free constants to the runs with a time. Values start at the presets' own. Throws RunError where nothing is free.
RunFit fit_constants(const std::vector<MappedRun>&, const RunFitOptions&);

/// Writes values into the clusters of runs (constants are matched by home).
void set_constants(std::vector<MappedRun>&, const std::vector<FreeConstant>&);

}  // namespace tessera
