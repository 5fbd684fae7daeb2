#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "io/preset_reader.hpp"
#include "io/report_parts.hpp"
#include "io/toml_reader.hpp"
#include "tessera/uncertainty.hpp"
#include "tessera/units.hpp"

namespace tessera::reporting {
namespace {

struct Settings {
  std::int64_t members, replicates, most_candidates;
  double common_time_error, paired_law_sd;
};

Settings read_settings() {
  const toml::table table = parse_toml_text(Presets().text("report", "certainty"), "preset report/certainty");
  TomlReader reader(table, "preset report/certainty");
  reader.accept("source");
  Settings s{reader.integer("members"), reader.integer("replicates"), reader.integer("most_candidates"),
             reader.number("common_time_error"), reader.number("paired_law_sd")};
  reader.finish();
  return s;
}

Candidate candidate(const Study& study, const TopRow& row) {
  const Architecture& architecture = study.architectures[row.architecture];
  const ParameterCount& count = study.counts[row.architecture];
  const Cluster& cluster = study.clusters[row.cluster];
  Candidate c;
  c.key = short_name(architecture);
  c.active_parameters = static_cast<double>(count.non_embedding_active);
  c.mfu = row.mfu;
  c.window_tokens =
      window_tokens(cluster.peak(Precision::bf16), static_cast<double>(cluster.devices),
                    row.window_days * kSecondsPerDay, row.mfu, row.goodput, c.active_parameters);
  c.point = law_point(study.law, architecture, count, c.window_tokens);
  c.batch_tokens = static_cast<double>(row.plan.batch) * static_cast<double>(study.sequence);
  return c;
}

Decision draw(const Uncertainty& u, const std::vector<Candidate>& candidates) {
  Losses losses = make_losses(u, candidates);
  // Ranges of members are disjoint and every number comes by counter: the same losses for any split.
  const std::size_t members = std::max<std::size_t>(1, u.members.size());
  tbb::parallel_for(std::size_t{0}, members,
                    [&](std::size_t m) { simulate(u, candidates, m, m + 1, losses); });
  return decide(losses);
}

Json summary(const Decision& d) {
  const CandidateVerdict& choice = d.verdicts[d.choice];
  return Json{{"choice", d.choice},
              {"probability", rounded(choice.best, 4)},
              {"regret", rounded(choice.regret, 4)},
              {"near_ties", d.near_ties}};
}

}  // namespace

Json certainty(const Study& study, const std::vector<TopRow>& rows, double time_error) {
  if (rows.empty()) return nullptr;
  const Settings s = read_settings();
  Uncertainty u;
  u.law = study.law;
  u.members = ensemble_members(study.law, static_cast<std::size_t>(s.members), u.seed);
  u.time.common = std::min(s.common_time_error, time_error);
  u.time.individual = std::sqrt(std::max(0.0, time_error * time_error - u.time.common * u.time.common));
  u.form.split_offset = study.law.form_sd;
  u.bounds = study.token_bounds;
  u.value = study.token_value;
  u.replicates = static_cast<std::size_t>(s.replicates);
  std::vector<Candidate> candidates;
  const double margin = candidate_margin(u, candidate(study, rows.front()), s.paired_law_sd);
  for (const TopRow& row : rows)  // ascending loss
    if (candidates.size() < static_cast<std::size_t>(s.most_candidates) &&
        row.loss <= rows.front().loss + margin)
      candidates.push_back(candidate(study, row));
  const Decision d = draw(u, candidates);
  Json out = summary(d);
  out["members"] = u.members.size();
  out["draws"] = std::max<std::size_t>(1, u.members.size()) * u.replicates;
  out["candidates"] = candidates.size();
  out["time_error"] = rounded(time_error, 4);
  out["common_time_error"] = rounded(u.time.common, 4);
  out["form_sd"] = rounded(study.law.form_sd, 4);
  out["synthetic"] = study.law.synthetic_uncertainty;
  out["ninety"] = d.ninety_set.size();
  out["regret_in_hours"] = rounded(regret_in_hours(u, candidates[d.choice], d.verdicts[d.choice].regret), 4);
  const auto alone = [&](Sources sources) { return summary(draw(only(u, sources), candidates)); };
  out["law_only"] = alone({true, false, false});
  out["time_only"] = alone({false, true, false});
  Json list = Json::array();
  for (std::size_t i = 0; i < d.verdicts.size(); ++i) {
    const CandidateVerdict& v = d.verdicts[i];
    if (v.best < 0.005 && i != d.choice && i != 0) continue;  // below half a percent: not a contender
    list.push_back(Json{{"row", i},
                        {"probability", rounded(v.best, 4)},
                        {"regret", rounded(v.regret, 4)},
                        {"low", rounded(v.paired_low, 4)},
                        {"high", rounded(v.paired_high, 4)},
                        {"tied", v.tied}});
  }
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return a["probability"].get<double>() > b["probability"].get<double>();
  });
  out["rows"] = std::move(list);
  return out;
}

}  // namespace tessera::reporting
