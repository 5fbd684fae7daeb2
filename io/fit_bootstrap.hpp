// Resamples of a fit and the intervals from them.
#pragma once
#include "io/fit.hpp"

namespace tessera {

/// Fills intervals, members and resamples_failed. Resample b depends on (seed, b) only. Each is minimised from the
/// optimum and from a second point (perturbed exponents, amplitudes solved again). With a prior, its centre is drawn
/// anew in each resample (randomise, then optimise), so that the spread holds the prior's share too.
void bootstrap(FitResult&, const FitData&, const std::vector<Run>&, const FitOptions&, const FitPrior&, const std::vector<double>& theta);

/// Interval of `draws` around `estimate` at 95 %, bias-corrected and accelerated with the jackknife values `left_out`.
FitInterval bca_interval(std::vector<double> draws, double estimate, const std::vector<double>& left_out);

}  // namespace tessera
