// How sure the choice of a budget is: all candidates under the same members of the law and the same draws.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/budget_draws.hpp"
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
  // A law with fewer members, or none but itself, takes turns: the step-time errors are drawn as often all
  // the same.
  for (std::size_t m = 0; u.members.size() < static_cast<std::size_t>(table.draws.members); ++m)
    u.members.push_back(u.members[m]);
  u.time.common = std::min(table.settings.common_time_error, time_error);
  u.time.individual = std::sqrt(std::max(0.0, time_error * time_error - u.time.common * u.time.common));
  u.form.split_offset = table.law.form_sd;
  u.bounds = table.bounds;
  u.value = table.value;
  return u;
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
                       const std::vector<BudgetCandidate>& ranked, const Candidate& best) {
  const double margin = win_margin(table, u, best);
  std::size_t count = 1;
  while (count < ranked.size() && ranked[count].loss <= ranked.front().loss + margin) ++count;
  return count;
}

OtherChoice summary(const Decision& d, const BudgetCandidate& c) {
  const CandidateVerdict& v = d.verdicts[d.choice];
  return {c.architecture, c.tokens, c.loss, v.best, v.regret, d.near_ties, d.ninety_set.size()};
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
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
                              const std::vector<BudgetCandidate>& ranked, SharedDraws& draws) {
  const Assumption compressed{.sources = {},
                              .slope = table.settings.compressed_slope,
                              .slope_sd = table.settings.compressed_slope_sd,
                              .anchor = ranked.front().mfu};
  // Candidates of low MFU gain by it, so the margin is laid around the losses with the compressed MFU.
  const std::vector<double> losses = draws.expected_losses(compressed);
  Uncertainty sloped = u;
  sloped.time.slope_sd = compressed.slope_sd;
  const double least = *std::min_element(losses.begin(), losses.end());
  const double margin = win_margin(table, sloped, draws.candidates().front());
  std::vector<std::size_t> close;
  for (std::size_t i = 0; i < ranked.size(); ++i)
    if (losses[i] <= least + margin) close.push_back(i);
  const Decision d = decide_together(draws.losses(compressed, close), false);
  return summary(d, ranked[close[d.choice]]);
}

/// The choice without the upper bound on tokens. `uncapped` ranks the candidates of `answer` without it.
OtherChoice uncapped_choice(const BudgetTable& table, const Uncertainty& u, const BudgetAnswer& answer,
                            const BudgetAnswer& uncapped, SharedDraws& draws) {
  std::vector<std::size_t> index(table.architectures.size());  // architecture -> place in `answer`
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) index[answer.candidates[i].architecture] = i;
  Uncertainty free = u;
  free.bounds.high.reset();
  const auto& ranked = uncapped.candidates;
  const Candidate& best = draws.candidates()[index[ranked.front().architecture]];
  std::vector<std::size_t> close;
  for (std::size_t i = 0, count = contenders(table, free, ranked, best); i < count; ++i)
    close.push_back(index[ranked[i].architecture]);
  const Decision d = decide_together(draws.losses({.sources = {}, .capped = false}, close), false);
  return summary(d, ranked[d.choice]);
}

void widen(Span& span, double value, bool first) {
  span.low = first ? value : std::min(span.low, value);
  span.high = first ? value : std::max(span.high, value);
}

}  // namespace

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

void add_certainty(const BudgetTable& table, const BudgetAnswer* uncapped, BudgetAnswer& answer) {
  const Uncertainty u = make_uncertainty(table, answer.time_error);
  SharedDraws draws(u, law_candidates(table, answer.candidates));
  answer.considered = contenders(table, u, answer.candidates, draws.candidates().front());
  const auto close = first(answer.considered);
  const Losses& losses = draws.losses({}, close);
  answer.draws = losses.draws;
  answer.decision = decide_together(losses, true);
  answer.has_certainty = true;
  const std::size_t choice = answer.decision.choice;
  answer.loss_sd = spread(losses, choice);
  answer.regret_in_hours =
      regret_in_hours(u, draws.candidates()[choice], answer.decision.verdicts[choice].regret);
  const auto alone = [&](Sources sources) {
    const Decision d = decide_together(draws.losses({.sources = sources}, close), false);
    return summary(d, answer.candidates[d.choice]);
  };
  answer.law_only = alone({true, false, false});
  answer.time_only = alone({false, true, false});
  answer.form_only = alone({false, false, true});
  answer.compressed = compressed_choice(table, u, answer.candidates, draws);
  if (uncapped != nullptr) answer.without_cap = uncapped_choice(table, u, answer, *uncapped, draws);
  add_tied_ranges(table, answer);
}

}  // namespace tessera::budgets
