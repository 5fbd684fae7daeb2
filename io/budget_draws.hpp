// Losses of a budget's candidates under several assumptions (law alone, no token cap, ...). Each assumption
// simulated on its own would draw the same random numbers and evaluate the same members again; here both are
// made once and shared. Losses and decisions are those of simulate() and decide() (tessera/uncertainty.hpp)
// to the last bit, on any number of threads: tests hold them together.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/uncertainty.hpp"

namespace tessera::budgets {

/// What a decision is made under.
struct Assumption {
  Sources sources;                             ///< off: as by only()
  bool capped = true;                          ///< the upper bound on tokens per active parameter holds
  double slope = 1, slope_sd = 0, anchor = 0;  ///< as of TimeError; acts whatever the sources
};

class SharedDraws {
 public:
  /// Everything of `u` is used but groups of time errors and the flat split. Candidates have tokens and
  /// active parameters.
  SharedDraws(const Uncertainty& u, std::vector<Candidate> candidates);

  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// Losses of the candidates `which`, in that order. The reference is good until the next call.
  const Losses& losses(const Assumption&, std::span<const std::size_t> which);
  /// Loss of each candidate under the law itself and without time error.
  std::vector<double> expected_losses(const Assumption&) const;

 private:
  /// What of a candidate does not depend on the assumption; the vectors are filled when it is first asked
  /// for.
  struct Row {
    LawPoint point;  ///< formula point
    double log_tokens = 0, log_cap = 0, mfu = 0;
    std::uint64_t key = 0;
    std::size_t split = 0;                       ///< index into offsets_
    std::optional<DataTerm> nominal;             ///< of the law itself
    std::vector<std::optional<DataTerm>> terms;  ///< by member
    std::vector<double> individual;              ///< normals by draw
  };
  struct Pass;  ///< an assumption, its number of draws
  double loss_of(std::size_t candidate, const std::optional<DataTerm>&, std::span<const double> coefficients,
                 double log_tokens) const;
  void complete(Row&) const;
  void fill(const Pass&, std::size_t candidate, double* out) const;

  Uncertainty u_;
  std::vector<Candidate> candidates_;
  std::size_t members_, replicates_;
  std::vector<Row> rows_;
  std::vector<std::uint64_t> counters_;       ///< of individual draws, hashed up to the key
  std::vector<double> common_;                ///< normals by draw
  std::vector<double> slopes_;                ///< normals by member
  std::vector<std::vector<double>> offsets_;  ///< of each split factor, normals by draw
  Losses losses_;
};

/// decide(), in parallel. Without `pairs` the paired quantiles are left at 0; `tied` is exact all the same.
Decision decide_together(const Losses&, bool pairs);

/// Decision::ninety_set of verdicts over a number of draws.
std::vector<std::size_t> ninety_set(const std::vector<CandidateVerdict>&, std::size_t draws);

}  // namespace tessera::budgets
