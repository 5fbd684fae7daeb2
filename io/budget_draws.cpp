#include "io/budget_draws.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::budgets {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count), [&](const auto& range) {
    for (std::size_t i = range.begin(); i < range.end(); ++i) work(i);
  });
}

/// Key of the offset of a split factor, as in simulate(): the factor itself where it is a whole number.
std::uint64_t split_key(double split) {
  const auto fine = static_cast<std::uint64_t>(std::llround(split * 1024));
  return fine % 1024 == 0 ? static_cast<std::uint64_t>(std::llround(split)) : fine + (1ull << 32);
}

/// Counter of uniform_draw() up to its last word.
std::uint64_t counter(std::uint64_t seed, DrawStream stream, std::uint64_t member, std::uint64_t replicate) {
  std::uint64_t hash = seed;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(stream), member, replicate})
    hash = splitmix64(hash ^ word);
  return hash;
}

double normal(std::uint64_t counter, std::uint64_t key) {
  return normal_quantile((static_cast<double>(splitmix64(counter ^ key) >> 11) + 0.5) * 0x1p-53);
}

std::vector<double> normals(const std::vector<std::uint64_t>& counters, std::uint64_t key) {
  std::vector<double> out(counters.size());
  std::transform(counters.begin(), counters.end(), out.begin(),
                 [key](std::uint64_t c) { return normal(c, key); });
  return out;
}

}  // namespace

/// An assumption and how many draws it takes: without time error and offset a member's replicates are all
/// alike, so there is one.
struct SharedDraws::Pass {
  Assumption a;
  bool offset;  ///< per split factor
  std::size_t replicates;
};

SharedDraws::SharedDraws(const Uncertainty& u, std::vector<Candidate> candidates)
    : u_(u),
      candidates_(std::move(candidates)),
      members_(std::max<std::size_t>(1, u.members.size())),
      replicates_(u.replicates),
      rows_(candidates_.size()) {
  std::vector<std::uint64_t> split_keys;
  std::vector<std::uint64_t> common, split;
  for (std::size_t m = 0; m < members_; ++m) {
    slopes_.push_back(normal(counter(u.seed, DrawStream::slope, m, 0), 0));
    for (std::size_t r = 0; r < replicates_; ++r) {
      counters_.push_back(counter(u.seed, DrawStream::individual, m, r));
      common.push_back(counter(u.seed, DrawStream::common, m, r));
      split.push_back(counter(u.seed, DrawStream::split_offset, m, r));
    }
  }
  common_ = normals(common, 0);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Candidate& c = candidates_[i];
    Row& row = rows_[i];
    row.point = formula_point(u.law, c.point);
    row.log_tokens = std::log(c.window_tokens);
    row.log_cap = u.bounds.high ? std::log(*u.bounds.high * c.active_parameters) : kInfinity;
    row.mfu = c.mfu;
    row.key = fnv1a(c.key);
    row.nominal = data_term(u.law.form, u.law.coefficients, row.point);
    const std::uint64_t key = split_key(c.point.split);
    row.split =
        static_cast<std::size_t>(std::find(split_keys.begin(), split_keys.end(), key) - split_keys.begin());
    if (row.split == split_keys.size()) split_keys.push_back(key);
  }
  offsets_.resize(split_keys.size());
  if (u.form.split_offset > 0)
    in_parallel(split_keys.size(), [&](std::size_t i) { offsets_[i] = normals(split, split_keys[i]); });
}

double SharedDraws::loss_of(std::size_t candidate, const std::optional<DataTerm>& term,
                            std::span<const double> coefficients, double log_tokens) const {
  if (u_.value.active())
    log_tokens =
        std::log(effective_tokens(u_.value, std::exp(log_tokens), candidates_[candidate].batch_tokens));
  if (term)
    return term->amplitude == 0 ? term->floor
                                : term->floor + term->amplitude * std::exp(-term->exponent * log_tokens);
  LawPoint at = rows_[candidate].point;
  at.tokens = std::exp(log_tokens);
  return loss(u_.law.form, coefficients, at);
}

void SharedDraws::complete(Row& row) const {
  if (!row.terms.empty()) return;
  row.terms.reserve(members_);
  for (std::size_t m = 0; m < members_; ++m)
    row.terms.push_back(u_.members.empty() ? row.nominal : data_term(u_.law.form, u_.members[m], row.point));
  if (u_.time.individual > 0) row.individual = normals(counters_, row.key);
}

void SharedDraws::fill(const Pass& pass, std::size_t candidate, double* out) const {
  const Row& row = rows_[candidate];
  const Assumption& a = pass.a;
  const double cap = a.capped ? row.log_cap : kInfinity;
  const double ratio = row.mfu > 0 && a.anchor > 0 ? std::log(row.mfu / a.anchor) : 0;
  const bool common = a.sources.time && u_.time.common > 0,
             individual = a.sources.time && u_.time.individual > 0;
  for (std::size_t m = 0; m < members_; ++m) {
    const bool own = a.sources.law && !u_.members.empty();
    const auto& term = own ? row.terms[m] : row.nominal;
    const auto& coefficients = own ? u_.members[m] : u_.law.coefficients;
    const double slope = a.slope_sd > 0 ? a.slope + a.slope_sd * slopes_[m] : a.slope;
    double nats = 0;
    for (std::size_t r = 0; r < pass.replicates; ++r) {
      const std::size_t d = m * replicates_ + r;
      if (r == 0 || a.sources.time) {  // else the replicates differ in the offset only
        double speed = (common ? u_.time.common * common_[d] : 0.0) + (slope - 1) * ratio;
        if (individual) speed += u_.time.individual * row.individual[d];
        nats = loss_of(candidate, term, coefficients, std::min(row.log_tokens + speed, cap));
      }
      *out++ = pass.offset ? nats + u_.form.split_offset * offsets_[row.split][d] : nats;
    }
  }
}

const Losses& SharedDraws::losses(const Assumption& a, std::span<const std::size_t> which) {
  Pass pass{a, a.sources.form && u_.form.split_offset > 0, 1};
  if (a.sources.time || pass.offset) pass.replicates = replicates_;
  losses_.candidates = which.size();
  losses_.draws = members_ * pass.replicates;
  losses_.values.resize(losses_.candidates * losses_.draws);
  in_parallel(which.size(), [&](std::size_t i) {
    complete(rows_[which[i]]);
    fill(pass, which[i], losses_.values.data() + i * losses_.draws);
  });
  return losses_;
}

std::vector<double> SharedDraws::expected_losses(const Assumption& a) const {
  std::vector<double> out(rows_.size());
  in_parallel(rows_.size(), [&](std::size_t i) {
    const Row& row = rows_[i];
    const double ratio = row.mfu > 0 && a.anchor > 0 ? std::log(row.mfu / a.anchor) : 0;
    const double speed = 0.0 + (a.slope - 1) * ratio;
    out[i] = loss_of(i, row.nominal, u_.law.coefficients,
                     std::min(row.log_tokens + speed, a.capped ? row.log_cap : kInfinity));
  });
  return out;
}

// --- decision
// -----------------------------------------------------------------------------------------------

namespace {

/// Order statistics below and above a quantile, as numpy interpolates.
struct Position {
  std::size_t below;
  double share;
  Position(std::size_t count, double q) {
    const double position = q * static_cast<double>(count - 1);
    below = static_cast<std::size_t>(position);
    share = position - static_cast<double>(below);
  }
};

/// The 5, 50 and 95 % quantiles. Reorders the values; each selection leaves the larger ones to the next.
void fill_quantiles(std::vector<double>& values, CandidateVerdict& v) {
  auto rest = values.begin();
  for (const auto& [q, out] :
       {std::pair{0.05, &v.paired_low}, {0.50, &v.paired_median}, {0.95, &v.paired_high}}) {
    const Position at(values.size(), q);
    const auto below = values.begin() + static_cast<std::ptrdiff_t>(at.below);
    std::nth_element(rest, below, values.end());
    *out = *below;
    if (below + 1 != values.end())
      *out = *below + at.share * (*std::min_element(below + 1, values.end()) - *below);
    rest = below;
  }
}

/// Does the 5 % quantile of the differences reach 0? From counts: no order is needed unless 0 falls between
/// the two order statistics that the quantile interpolates.
bool reaches_zero(const double* row, const double* choice, std::size_t draws, std::size_t at_most_zero) {
  const Position at(draws, 0.05);
  if (at_most_zero <= at.below) return false;
  if (at_most_zero > at.below + 1 || at.below + 1 == draws) return true;
  double low = -kInfinity, high = kInfinity;
  for (std::size_t d = 0; d < draws; ++d) {
    const double difference = row[d] - choice[d];
    (difference <= 0 ? low : high) = difference <= 0 ? std::max(low, difference) : std::min(high, difference);
  }
  return low + at.share * (high - low) <= 0;
}

void pair_with_choice(const Losses& losses, bool pairs, Decision& out) {
  const std::size_t draws = losses.draws;
  const double* choice = losses.values.data() + out.choice * draws;
  in_parallel(losses.candidates, [&](std::size_t i) {
    auto& verdict = out.verdicts[i];
    const double* row = losses.values.data() + i * draws;
    std::size_t wins = 0, at_most_zero = 0;
    for (std::size_t d = 0; d < draws; ++d)
      wins += row[d] < choice[d], at_most_zero += row[d] - choice[d] <= 0;
    verdict.beats_choice = static_cast<double>(wins) / static_cast<double>(draws);
    verdict.tied = i == out.choice || reaches_zero(row, choice, draws, at_most_zero);
    if (!pairs) return;
    std::vector<double> difference(draws);
    for (std::size_t d = 0; d < draws; ++d) difference[d] = row[d] - choice[d];
    fill_quantiles(difference, verdict);
  });
  for (const auto& v : out.verdicts) out.near_ties += v.tied;
}

/// Mean of each candidate, P(best), and the mean of the least loss of every draw.
void count_wins(const Losses& losses, Decision& out) {
  const std::size_t draws = losses.draws;
  const auto share = static_cast<double>(draws);
  in_parallel(losses.candidates, [&](std::size_t i) {
    const double* row = losses.values.data() + i * draws;
    out.verdicts[i].mean =
        std::accumulate(row, row + draws, 0.0) / share;  // in order: the same bits anywhere
  });
  std::vector<double> least(losses.values.begin(),
                            losses.values.begin() + static_cast<std::ptrdiff_t>(draws));
  std::vector<std::size_t> best(draws, 0);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, draws, 512), [&](const auto& range) {
    for (std::size_t i = 1; i < losses.candidates; ++i) {
      const double* row = losses.values.data() + i * draws;
      for (std::size_t d = range.begin(); d < range.end(); ++d)
        if (row[d] < least[d]) least[d] = row[d], best[d] = i;
    }
  });
  std::vector<std::size_t> wins(losses.candidates, 0);
  for (const std::size_t i : best) ++wins[i];
  out.least_mean = std::accumulate(least.begin(), least.end(), 0.0) / share;
  for (std::size_t i = 0; i < losses.candidates; ++i)
    out.verdicts[i].best = static_cast<double>(wins[i]) / share;
}

}  // namespace

std::vector<std::size_t> ninety_set(const std::vector<CandidateVerdict>& verdicts, std::size_t draws) {
  const auto wins = [&](std::size_t i) {
    return static_cast<std::size_t>(std::llround(verdicts[i].best * static_cast<double>(draws)));
  };
  std::vector<std::size_t> order(verdicts.size()), out;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wins(a) > wins(b); });
  std::size_t covered = 0;
  for (const std::size_t i : order) {
    if (10 * covered >= 9 * draws) break;
    out.push_back(i);
    covered += wins(i);
  }
  return out;
}

Decision decide_together(const Losses& losses, bool pairs) {
  Decision out;
  out.verdicts.resize(losses.candidates);
  count_wins(losses, out);
  for (std::size_t i = 0; i < losses.candidates; ++i) {
    auto& verdict = out.verdicts[i];
    verdict.regret = std::max(0.0, verdict.mean - out.least_mean);
    out.optimism += verdict.best * verdict.mean;
    if (verdict.mean < out.verdicts[out.choice].mean) out.choice = i;
  }
  out.optimism = std::max(0.0, out.optimism - out.least_mean);
  out.ninety_set = ninety_set(out.verdicts, losses.draws);
  pair_with_choice(losses, pairs, out);
  return out;
}

}  // namespace tessera::budgets
