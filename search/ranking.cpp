#include "search/ranking.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/units.hpp"

namespace tessera {
namespace {

/// Everything of a row but its rank. The loss is infinite where the law has no value.
TopRow make_row(const Study& study, const Space& space, const BestRow& best, double days) {
  const Cluster& cluster = study.clusters[best.cluster];
  const ParameterCount& count = study.counts[best.architecture];
  const auto active = static_cast<double>(count.non_embedding_active);
  TopRow row;
  row.cluster = best.cluster;
  row.batch = best.batch;
  row.architecture = best.architecture;
  row.window_days = days;
  row.id = best.id;
  row.plan = space.plan(space.decode(best.id));
  row.step_seconds = best.step_seconds;
  row.memory_bytes = best.memory_bytes;
  row.memory_with_reserve_bytes = best.memory_with_reserve_bytes;
  row.compute_seconds = best.compute_seconds;
  row.communication_seconds = best.communication_seconds;
  row.ramp_seconds = best.ramp_seconds;
  row.host_seconds = best.host_seconds;
  const double peak = cluster.peak(Precision::bf16);
  row.mfu = law_mfu(active, row.plan.batch, study.sequence, row.step_seconds, cluster.devices, peak);
  row.goodput = goodput(study.goodput, static_cast<double>(cluster.devices), static_cast<double>(count.all_total)).value;
  const double seconds = (days - study.terms.stopped_days) * kSecondsPerDay;
  row.tokens = window_tokens(peak, static_cast<double>(cluster.devices), seconds, row.mfu, row.goodput, active);
  return row;
}

double batch_tokens(const Study& study, const TopRow& row) {
  return static_cast<double>(row.plan.batch) * static_cast<double>(study.sequence);
}

/// Applies the bounds and the law. False: refused for the window.
bool finish_row(const Study& study, TopRow& row) {
  const ParameterCount& count = study.counts[row.architecture];
  const auto active = static_cast<double>(count.non_embedding_active);
  const BoundedTokens bounded = bound_tokens(row.tokens, active, study.token_bounds);
  row.tokens = bounded.tokens;
  row.tokens_per_active_parameter = bounded.per_active;
  row.tokens_cut = bounded.cut;
  row.model_flops = 6.0 * active * row.tokens;
  const double seen = effective_tokens(study.token_value, row.tokens, batch_tokens(study, row));
  row.loss = loss(study.law, law_point(study.law, study.architectures[row.architecture], count, seen));
  return !bounded.refused;
}

}  // namespace

void rank_envelopes(const Study& study, const Space& space, SweepResult& result) {
  const std::size_t architectures = study.architectures.size();
  for (std::uint32_t c = 0; c < study.clusters.size(); ++c)
    for (const double days : study.days) {
      EnvelopeCounts counts{c, days};
      std::vector<TopRow> choice(architectures);
      std::vector<double> worth(architectures, 0.0);  // effective tokens of the choice
      for (const BestRow& best : result.best) {
        if (best.cluster != c || best.feasible == 0) continue;
        const TopRow row = make_row(study, space, best, days);
        const double seen = effective_tokens(study.token_value, row.tokens, batch_tokens(study, row));
        if (seen <= worth[best.architecture]) continue;  // rows come by ascending id: at equal worth the first stays
        worth[best.architecture] = seen;
        choice[best.architecture] = row;
      }
      std::vector<TopRow> ranked;
      for (TopRow& row : choice) {
        if (row.id == kNoId) ++counts.nothing_fits;
        else if (above_limits(study.architectures[row.architecture], study.counts[row.architecture], study.terms.serving)) ++counts.over_limits;
        else if (!finish_row(study, row)) ++counts.too_few_tokens;
        else if (!std::isfinite(row.loss)) ++counts.outside_law;
        else ranked.push_back(row);
      }
      counts.ranked = ranked.size();
      result.envelopes.push_back(counts);
      std::sort(ranked.begin(), ranked.end(), [](const TopRow& a, const TopRow& b) {
        return a.loss != b.loss ? a.loss < b.loss : a.id < b.id;
      });
      if (ranked.size() > static_cast<std::size_t>(study.top)) ranked.resize(static_cast<std::size_t>(study.top));
      for (std::size_t i = 0; i < ranked.size(); ++i) ranked[i].rank = static_cast<std::int64_t>(i) + 1;
      result.top.insert(result.top.end(), ranked.begin(), ranked.end());
    }
}

}  // namespace tessera
