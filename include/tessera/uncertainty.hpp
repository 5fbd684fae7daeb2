// How sure a choice of architecture is: every candidate is evaluated under the same members of a law's ensemble
// and the same draws of step-time error (paired, random numbers by counter), and the choice is the candidate of
// least expected regret. Method and test values: docs/laws.md.
//
//   Uncertainty u;  u.law = law;  u.members = ensemble_members(law, 512, u.seed);
//   u.time = {.common = 0.04, .individual = 0.12};
//   Losses losses = make_losses(u, candidates);
//   simulate(u, candidates, 0, u.members.size(), losses);  // or disjoint member ranges in parallel
//   Decision d = decide(losses);
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/budget.hpp"
#include "tessera/law.hpp"

namespace tessera {

// --- random numbers by counter ------------------------------------------------------------------------------

/// One step of SplitMix64 (Steele, Lea, Flood 2014): a hash, no state.
std::uint64_t splitmix64(std::uint64_t);
/// FNV-1a, 64 bits: the key of a text.
std::uint64_t fnv1a(std::string_view);
/// Streams of draws; their numbers are part of the results and never change.
enum class DrawStream : std::uint64_t { common = 1, group = 2, individual = 3, split_offset = 4, slope = 5,
                                        flat_split = 6, level_slope = 7, resample = 8, start = 9 };
/// Uniform in (0,1) of (seed, stream, member, replicate, key); depends on nothing else.
double uniform_draw(std::uint64_t seed, DrawStream, std::uint64_t member, std::uint64_t replicate, std::uint64_t key);
/// Standard normal of the same counter.
double normal_draw(std::uint64_t seed, DrawStream, std::uint64_t member, std::uint64_t replicate, std::uint64_t key);
/// Quantile of the standard normal, 0 < u < 1 (Wichura 1988, AS241; relative error 1e-16).
double normal_quantile(double u);

// --- ensembles ----------------------------------------------------------------------------------------------

using Members = std::vector<std::vector<double>>;  ///< coefficient vectors in the order of the law's form

/// Level/slope coordinates of coefficients of the mosaic form at a reference point: loss level, logs of the four
/// slopes (by N, D, 1-S, G), logs of the six exponents. There the ensemble is Gaussian. nullopt where a slope or
/// exponent is not positive.
std::optional<std::array<double, 11>> to_level_slope(std::span<const double> coefficients, const LevelSlope&);
/// The inverse; nullopt where an amplitude or the constant would not be positive.
std::optional<std::vector<double>> from_level_slope(const std::array<double, 11>&, const LevelSlope&);

/// `count` members of a law: its own bootstrap members where it has them (the first `count`), else drawn from its
/// level/slope Gaussian (draws without a positive amplitude are drawn again). A law with neither gives one member,
/// itself. Member m is the same for every `count`.
Members ensemble_members(const Law&, std::size_t count, std::uint64_t seed);

// --- candidates and sources of uncertainty ------------------------------------------------------------------

struct Candidate {
  std::string key;             ///< names the draws of its own time error, e.g. "q12 E96 K2 G4"
  std::string group;           ///< candidates whose time errors move together; empty: none
  LawPoint point;              ///< tokens ignored
  double window_tokens = 0;    ///< tokens the window pays for at the predicted MFU, before any bound
  double active_parameters = 0;  ///< N_act of the bound on tokens per active parameter
  double mfu = 0;              ///< predicted; used by the slope scenario only
  double batch_tokens = 0;     ///< tokens per optimizer step; used by the critical-batch penalty only
};

/// Error of predicted step times, log-normal with median 1: MFU · exp(common z0 + group zg + individual zi).
struct TimeError {
  double common = 0, group = 0, individual = 0;  ///< standard deviations of the logarithm
  /// Compressed spread: log true MFU = log anchor + slope (log MFU - log anchor); 1: as predicted. slope_sd makes
  /// the slope itself uncertain (one draw a member). anchor 0: the MFU of the candidate of lowest nominal loss.
  double slope = 1, slope_sd = 0, anchor = 0;
};

/// Misfit of the law's form that the ensemble cannot know.
struct FormError {
  double split_offset = 0;      ///< sd of a loss offset per split factor G [nats]
  double flat_probability = 0;  ///< probability that G above flat_from is worth no more than flat_from
  double flat_from = 4;
};

struct Uncertainty {
  Law law;                      ///< form and nominal coefficients
  Members members;              ///< empty: the law itself, one member
  TimeError time;
  FormError form;
  TokenBounds bounds;           ///< only `high` acts here: admission is decided on nominal values
  TokenValue value;             ///< batch penalty and repetition
  std::size_t replicates = 8;   ///< time draws per member
  std::uint64_t seed = 1;
};

/// Losses [candidate][draw], draw = member · replicates + replicate, in nats.
struct Losses {
  std::size_t candidates = 0, draws = 0;
  std::vector<double> values;
  double at(std::size_t candidate, std::size_t draw) const { return values[candidate * draws + draw]; }
};
/// Room for all draws. Throws InputError where the number of members, replicates or candidates is 0, or a law
/// does not predict a loss.
Losses make_losses(const Uncertainty&, std::span<const Candidate>);
/// Fills the draws of members [first, last). Ranges are disjoint in memory: call it from as many threads as liked.
void simulate(const Uncertainty&, std::span<const Candidate>, std::size_t first, std::size_t last, Losses&);
/// Loss of each candidate at predicted MFU under the law itself.
std::vector<double> nominal_losses(const Uncertainty&, std::span<const Candidate>);

// --- decision -----------------------------------------------------------------------------------------------

struct CandidateVerdict {
  double mean = 0;         ///< mean loss [nats]
  double regret = 0;       ///< E[L_i - min_j L_j] >= 0 [nats]
  double best = 0;         ///< P(least loss); a tie in a draw goes to the lower index
  double paired_low = 0, paired_median = 0, paired_high = 0;  ///< 5, 50, 95 % of L_i - L_choice [nats]
  double beats_choice = 0; ///< P(L_i < L_choice)
  bool tied = false;       ///< the 90 % paired interval reaches 0 or below (the choice itself is tied)
};

struct Decision {
  std::size_t choice = 0;              ///< least regret = least mean; ties to the lower index
  std::vector<CandidateVerdict> verdicts;
  std::vector<std::size_t> ninety_set; ///< by descending P(best) until the sum reaches 0.90
  std::size_t near_ties = 0;           ///< number of tied candidates, the choice included
  double least_mean = 0;               ///< E min_j L_j [nats]
  /// Optimiser's curse [nats]: if every draw were a prediction and its least loss were believed, the model so
  /// chosen would on average end this much above its promise.
  double optimism = 0;
};
/// Quantiles interpolate linearly between order statistics (numpy's default). Precondition: losses filled.
Decision decide(const Losses&);

/// Which sources of uncertainty a run has.
struct Sources {
  bool law = true, time = true, form = true;
};
/// The same problem with only these sources (law off: the nominal coefficients; form off: no offsets).
Uncertainty only(const Uncertainty&, Sources);

/// Share of GPU-hours that a regret is worth: regret / (β b / D^β) at the choice's tokens; 0 for laws without
/// a separate data term.
double regret_in_hours(const Uncertainty&, const Candidate& choice, double regret);

/// Loss gap [nats] to the nominal best beyond which a candidate cannot win: 4 sqrt(law_sd² + 2 (σi βb/D^β)²).
/// law_sd: largest paired sd expected from the law.
double candidate_margin(const Uncertainty&, const Candidate& best, double law_sd);

}  // namespace tessera
