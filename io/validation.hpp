// Scoring the cost model on measured runs, in-sample or with a group left out of the fit.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "io/run_mapping.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

struct ScoredRun {
  const MappedRun* run = nullptr;
  double predicted_seconds = 0, error = 0;            ///< error = predicted/measured - 1; 0 where no time was measured
  double predicted_memory = 0, memory_error = 0;      ///< of the run's kind of figure
  bool feasible = true;                               ///< fits its device by the model's own reserve
  StepCost cost;
};

struct ErrorSummary {
  std::size_t used = 0;
  double median_abs_pct = 0, mean_abs_pct = 0, p90_abs_pct = 0, bias_pct = 0;
};
ErrorSummary summarise(std::vector<double> errors);

struct GroupScores {
  std::size_t groups = 0, pairs = 0;
  double kendall_tau = 0;          ///< mean over groups of equal model, cluster, format, sequence, batch and source
  double top1_regret_pct = 0;      ///< measured time of the predicted best plan over the measured best
  double ordered_pct = 0;          ///< of pairs more than 5 % apart, those in the right order
};

struct Validation {
  std::vector<ScoredRun> scored;
  ErrorSummary time, memory;
  GroupScores groups;
  std::map<std::string, std::map<std::string, ErrorSummary>> by;         ///< device, framework, model kind, precision, scale
  std::map<std::string, ErrorSummary> memory_by;                         ///< kind of figure
  std::size_t infeasible = 0;                                            ///< runs that ran but are called infeasible
};

/// Predicts every run with its cluster's constants.
Validation validate_runs(const std::vector<MappedRun>&);

/// The key of a run in a partition for cross-validation: publisher, model, device, release, plan.
std::string fold_key(const MappedRun&, const std::string& partition);

/// Refits without each fold and predicts it. Deterministic. Throws InputError for an unknown partition.
Validation cross_validate(std::vector<MappedRun>&, const std::string& partition);

/// errors.csv (only scored runs).
std::string errors_csv(const Validation&);

}  // namespace tessera
