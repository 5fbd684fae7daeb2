// How sure the choice of a budget is: all candidates under the same members of the law and the same draws.
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "io/budget_table_parts.hpp"
#include "io/report_parts.hpp"

namespace tessera::budgets {
namespace {

std::vector<Candidate> law_candidates(const BudgetTable& table, const std::vector<BudgetCandidate>& ranked) {
  std::vector<Candidate> out;
  out.reserve(ranked.size());
  for (const BudgetCandidate& b : ranked) {
    const Architecture& a = table.architectures[b.architecture];
    const ParameterCount& count = table.counts[b.architecture];
    Candidate c;
    c.key = reporting::short_name(a);
    c.active_parameters = static_cast<double>(count.non_embedding_active);
    c.mfu = b.mfu;
    c.window_tokens = b.window_tokens;
    c.point = law_point(table.law, a, count, b.window_tokens);
    c.batch_tokens = static_cast<double>(b.plan.batch) * static_cast<double>(table.sequence);
    out.push_back(std::move(c));
  }
  return out;
}

Uncertainty make_uncertainty(const BudgetTable& table, double time_error) {
  Uncertainty u;
  u.seed = static_cast<std::uint64_t>(table.draws.seed);
  u.replicates = static_cast<std::size_t>(table.draws.replicates);
  u.law = table.law;
  u.members = ensemble_members(table.law, static_cast<std::size_t>(table.draws.members), u.seed);
  u.time.common = std::min(table.settings.common_time_error, time_error);
  u.time.individual = std::sqrt(std::max(0.0, time_error * time_error - u.time.common * u.time.common));
  u.form.split_offset = table.law.form_sd;
  u.bounds = table.bounds;
  u.value = table.value;
  return u;
}

Losses draw(const Uncertainty& u, const std::vector<Candidate>& candidates) {
  constexpr std::size_t kMembersPerTask = 32;  // a task prepares all candidates once
  Losses losses = make_losses(u, candidates);
  const std::size_t members = std::max<std::size_t>(1, u.members.size());
  // Ranges of members are disjoint and every number comes by counter: the same losses for any split.
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, members, kMembersPerTask),
                    [&](const auto& r) { simulate(u, candidates, r.begin(), r.end(), losses); });
  return losses;
}

/// Loss gap [nats] to the best beyond which a candidate cannot win.
double win_margin(const BudgetTable& table, Uncertainty u, const Candidate& best) {
  u.time.individual =
      std::hypot(u.time.individual, u.time.slope_sd);          // the slope's error at an e-fold of MFU
  const double offset = std::sqrt(2.0) * u.form.split_offset;  // of a difference of two split factors
  return candidate_margin(u, best, std::hypot(table.settings.paired_law_sd, offset));
}

/// How many of the ranked candidates can still win: those within the margin of the best predicted loss.
std::size_t contenders(const BudgetTable& table, const Uncertainty& u,
                       const std::vector<BudgetCandidate>& ranked, const std::vector<Candidate>& candidates) {
  const double margin = win_margin(table, u, candidates.front());
  std::size_t count = 1;
  while (count < ranked.size() && ranked[count].loss <= ranked.front().loss + margin) ++count;
  return count;
}

OtherChoice summary(const Decision& d, const std::vector<BudgetCandidate>& ranked) {
  const BudgetCandidate& c = ranked[d.choice];
  const CandidateVerdict& v = d.verdicts[d.choice];
  return {c.architecture, c.tokens, c.loss, v.best, v.regret, d.near_ties, d.ninety_set.size()};
}

double spread(const Losses& losses, std::size_t candidate) {
  double mean = 0, square = 0;
  for (std::size_t d = 0; d < losses.draws; ++d) mean += losses.at(candidate, d);
  mean /= static_cast<double>(losses.draws);
  for (std::size_t d = 0; d < losses.draws; ++d) square += std::pow(losses.at(candidate, d) - mean, 2);
  return std::sqrt(square / static_cast<double>(losses.draws));
}

/// The choice if true MFU varied less between candidates than predicted.
OtherChoice compressed_choice(const BudgetTable& table, const Uncertainty& u,
                              const std::vector<BudgetCandidate>& ranked) {
  Uncertainty c = u;
  c.time.slope = table.settings.compressed_slope;
  c.time.slope_sd = table.settings.compressed_slope_sd;
  c.time.anchor = ranked.front().mfu;
  const auto candidates = law_candidates(table, ranked);
  // Candidates of low MFU gain by it, so the margin is laid around the losses with the compressed MFU.
  Uncertainty expected = only(u, {.law = false, .time = false, .form = false});
  expected.time.slope = c.time.slope;
  expected.time.anchor = c.time.anchor;
  Losses losses = make_losses(expected, candidates);
  simulate(expected, candidates, 0, 1, losses);
  const double least = *std::min_element(losses.values.begin(), losses.values.end());
  const double margin = win_margin(table, c, candidates.front());
  std::vector<Candidate> close;
  std::vector<BudgetCandidate> close_ranked;
  for (std::size_t i = 0; i < ranked.size(); ++i)
    if (losses.values[i] <= least + margin) close.push_back(candidates[i]), close_ranked.push_back(ranked[i]);
  return summary(decide(draw(c, close)), close_ranked);
}

void widen(Span& span, double value, bool first) {
  span.low = first ? value : std::min(span.low, value);
  span.high = first ? value : std::max(span.high, value);
}

/// What the near ties share, axis by axis.
void add_tied_ranges(const BudgetTable& table, BudgetAnswer& answer) {
  bool first = true;
  for (std::size_t i = 0; i < answer.considered; ++i) {
    if (!answer.decision.verdicts[i].tied) continue;
    const std::uint32_t at = answer.candidates[i].architecture;
    const ParameterCount& count = table.counts[at];
    widen(answer.tied_active, static_cast<double>(count.non_embedding_active), first);
    widen(answer.tied_total, static_cast<double>(count.non_embedding_total), first);
    widen(answer.tied_sparsity, count.sparsity(), first);
    widen(answer.tied_split, table.architectures[at].split, first);
    widen(answer.tied_experts, static_cast<double>(table.architectures[at].experts), first);
    first = false;
  }
}

}  // namespace

void add_certainty(const BudgetTable& table, const BudgetAnswer* uncapped, BudgetAnswer& answer) {
  const Uncertainty u = make_uncertainty(table, answer.time_error);
  auto candidates = law_candidates(table, answer.candidates);
  answer.considered = contenders(table, u, answer.candidates, candidates);
  candidates.resize(answer.considered);
  const Losses losses = draw(u, candidates);
  answer.draws = losses.draws;
  answer.decision = decide(losses);
  answer.has_certainty = true;
  const std::size_t choice = answer.decision.choice;
  answer.loss_sd = spread(losses, choice);
  answer.regret_in_hours = regret_in_hours(u, candidates[choice], answer.decision.verdicts[choice].regret);
  const auto alone = [&](Sources sources) {
    return summary(decide(draw(only(u, sources), candidates)), answer.candidates);
  };
  answer.law_only = alone({true, false, false});
  answer.time_only = alone({false, true, false});
  answer.form_only = alone({false, false, true});
  answer.compressed = compressed_choice(table, u, answer.candidates);
  if (uncapped != nullptr) {
    Uncertainty free = u;
    free.bounds.high.reset();
    auto others = law_candidates(table, uncapped->candidates);
    others.resize(contenders(table, free, uncapped->candidates, others));
    answer.without_cap = summary(decide(draw(free, others)), uncapped->candidates);
  }
  add_tied_ranges(table, answer);
}

}  // namespace tessera::budgets
