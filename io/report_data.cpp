#include <fmt/format.h>

#include <algorithm>

#include "io/preset_name.hpp"
#include "io/report.hpp"
#include "io/report_parts.hpp"
#include "io/study_reader.hpp"
#include "search/ranking.hpp"

namespace tessera {
namespace {

using namespace reporting;

// Every architecture of every envelope, ranked again from the best plans of the file.
SweepResult rank_all(Study study, const Results& results) {
  study.top = static_cast<std::int64_t>(std::max<std::size_t>(1, study.architectures.size()));
  const Space space(study);
  SweepResult result;
  for (const StoredBest& best : results.best) result.best.push_back(best.row);
  rank_envelopes(study, space, result);
  return result;
}

Json architecture_columns(const Study& study) {
  Json names = Json::array(), total = Json::array(), active = Json::array(), sparsity = Json::array(),
       split = Json::array(), layers = Json::array(), hidden = Json::array();
  for (std::size_t i = 0; i < study.architectures.size(); ++i) {
    names.push_back(short_name(study.architectures[i]));
    total.push_back(rounded(static_cast<double>(study.counts[i].non_embedding_total)));
    active.push_back(rounded(static_cast<double>(study.counts[i].non_embedding_active)));
    sparsity.push_back(rounded(study.counts[i].sparsity()));
    split.push_back(rounded(study.architectures[i].split, 4));
    layers.push_back(study.architectures[i].layers);
    hidden.push_back(study.architectures[i].hidden);
  }
  return Json{{"name", names},  {"total", total},   {"active", active}, {"sparsity", sparsity},
              {"split", split}, {"layers", layers}, {"hidden", hidden}};
}

Json clusters(const Study& study) {
  Json list = Json::array();
  for (const Cluster& c : study.clusters)
    list.push_back(Json{{"name", c.name},
                        {"nodes", nodes_of(c)},
                        {"devices", c.devices},
                        {"device", c.device.name},
                        {"device_title", device_title(c.device.name)},
                        {"fabric", c.fabric.name},
                        {"stack", c.stack.name},
                        {"peak_bf16", rounded(c.peak(Precision::bf16))},
                        {"memory_cap_bytes", rounded(c.memory_cap)}});
  return list;
}

// One array per column: a third of the size of one object per row.
Json row_columns(const std::vector<TopRow>& rows, std::size_t keep) {
  Json architecture = Json::array(), batch = Json::array(), loss = Json::array(), flops = Json::array(),
       tokens = Json::array(), mfu = Json::array(), step = Json::array(), memory = Json::array(),
       per_active = Json::array(), plan = Json::array(), cut = Json::array(), goodput = Json::array();
  for (std::size_t i = 0; i < std::min(keep, rows.size()); ++i) {
    const TopRow& r = rows[i];
    architecture.push_back(r.architecture);
    batch.push_back(r.plan.batch);
    loss.push_back(rounded(r.loss, 6));
    flops.push_back(rounded(r.model_flops));
    tokens.push_back(rounded(r.tokens));
    mfu.push_back(rounded(100 * r.mfu, 4));
    step.push_back(rounded(r.step_seconds, 4));
    memory.push_back(rounded(r.memory_with_reserve_bytes, 4));
    per_active.push_back(rounded(r.tokens_per_active_parameter, 4));
    plan.push_back(short_plan(r.plan));
    cut.push_back(r.tokens_cut ? 1 : 0);
    goodput.push_back(rounded(100 * r.goodput, 4));
  }
  return Json{{"architecture", architecture},
              {"batch", batch},
              {"loss", loss},
              {"flops", flops},
              {"tokens", tokens},
              {"mfu", mfu},
              {"step", step},
              {"memory", memory},
              {"per_active", per_active},
              {"plan", plan},
              {"cut", cut},
              {"goodput", goodput}};
}

Json refusals(const Counts& counts) {
  Json list = Json::array();
  for (std::size_t i = 1; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (counts.refused[i] > 0)
      list.push_back(
          Json{{"reason", to_string(reason)}, {"points", counts.refused[i]}, {"why", explanation(reason)}});
  }
  return Json{{"points", counts.points},
              {"evaluations", counts.evaluations},
              {"feasible", counts.feasible},
              {"refused", list}};
}

struct Envelope {
  EnvelopeCounts counts;
  std::vector<TopRow> rows;  ///< ascending loss
};

std::vector<Envelope> split_envelopes(const SweepResult& result) {
  std::vector<Envelope> out;
  std::size_t at = 0;
  for (const EnvelopeCounts& counts : result.envelopes) {
    Envelope e{counts, {}};
    while (at < result.top.size() && result.top[at].cluster == counts.cluster &&
           result.top[at].window_days == counts.window_days)
      e.rows.push_back(result.top[at++]);
    out.push_back(std::move(e));
  }
  return out;
}

// Maps of the best architectures, each made once per cluster and batch.
class Maps {
 public:
  Maps(const Study& study, const ReportLimits& limits) : study_(study), limits_(limits) {}
  /// Index of the map in list(), or nothing when there are enough.
  Json add(const TopRow& row) {
    const std::string key = fmt::format("{} {} {}", row.cluster, row.batch, row.architecture);
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found != keys_.end()) return found - keys_.begin();
    if (keys_.size() >= limits_.most_maps) return nullptr;
    keys_.push_back(key);
    list_.push_back(mesh_map(study_, row.cluster, row.batch, row.architecture));
    return keys_.size() - 1;
  }
  Json& list() { return list_; }

 private:
  const Study& study_;
  const ReportLimits& limits_;
  std::vector<std::string> keys_;
  Json list_ = Json::array();
};

Json envelope_json(const Study& study, const Envelope& e, const ReportLimits& limits, std::size_t keep,
                   Maps& maps) {
  Json plans = Json::array(), indices = Json::array();
  for (std::size_t i = 0; i < std::min(limits.breakdowns, e.rows.size()); ++i)
    plans.push_back(breakdown(study, e.rows[i]));
  for (std::size_t i = 0; i < std::min(limits.maps, e.rows.size()); ++i) {
    Json index = maps.add(e.rows[i]);
    if (!index.is_null()) indices.push_back(Json{{"row", i}, {"map", index}});
  }
  const double error = e.rows.empty() ? 0.0 : expected_time_error(study, e.rows.front());
  return Json{{"cluster", e.counts.cluster},
              {"days", rounded(e.counts.window_days)},
              {"ranked", e.counts.ranked},
              {"nothing_fits", e.counts.nothing_fits},
              {"over_limits", e.counts.over_limits},
              {"too_few_tokens", e.counts.too_few_tokens},
              {"outside_law", e.counts.outside_law},
              {"rows", row_columns(e.rows, keep)},
              {"breakdowns", plans},
              {"maps", indices},
              {"certainty", certainty(study, e.rows, error)}};
}

// Which share of the window trains, and by which model.
Json goodput_facts(const GoodputModel& g) {
  return Json{{"name", g.name.empty() ? "constant" : g.name}, {"modelled", g.modelled}, {"note", g.note}, {"source", g.source}};
}

Json facts(const Study& study, const Results& results) {
  Json warnings = Json::array();
  std::size_t changed = 0;
  for (const StoredPreset& stored : results.presets) {
    const std::string line = fmt::format("{} {} {}", stored.kind, stored.name, stored.hash);
    if (std::find(study.presets.begin(), study.presets.end(), line) == study.presets.end()) ++changed;
  }
  if (changed > 0)
    warnings.push_back(
        fmt::format("{} changed since the sweep: step times and memory of the candidates are the sweep's; "
                    "losses, bars and the map over pp and ep are of today's presets.",
                    changed == 1 ? "One preset has" : fmt::format("{} presets have", changed)));
  if (study.law.synthetic_uncertainty)
    warnings.push_back(
        "The spread of the law is a reconstruction on the published coverage: the authors' runs are not "
        "public.");
  Json bounds{{"low", study.token_bounds.low ? rounded(*study.token_bounds.low) : Json(nullptr)},
              {"high", study.token_bounds.high ? rounded(*study.token_bounds.high) : Json(nullptr)}};
  return Json{{"title", results.title},
              {"version", results.version},
              {"study", results.hash},
              {"signature", results.signature},
              {"law", results.law},
              {"record", results.record},
              {"sequence", results.sequence},
              {"optimizer", results.optimizer},
              {"architectures", study.architectures.size()},
              {"token_bounds", bounds},
              {"goodput", goodput_facts(study.goodput)},
              {"warnings", warnings}};
}

}  // namespace

std::string report_data(const ResultsReader& reader, const ReportLimits& limits) {
  const Results& results = reader.results();
  const Study study = restore_study(results.source, reader.path());
  const SweepResult ranked = rank_all(study, results);
  const std::vector<Envelope> envelopes = split_envelopes(ranked);
  const std::size_t keep = std::max<std::size_t>(1, limits.rows / std::max<std::size_t>(1, envelopes.size()));
  Maps maps(study, limits);
  Json list = Json::array();
  for (const Envelope& e : envelopes) list.push_back(envelope_json(study, e, limits, keep, maps));
  Json data{{"facts", facts(study, results)},
            {"clusters", clusters(study)},
            {"days", study.days},
            {"batches", study.batches},
            {"architectures", architecture_columns(study)},
            {"envelopes", std::move(list)},
            {"maps", std::move(maps.list())},
            {"points", refusals(results.totals)},
            {"rows_kept", keep}};
  std::string text = data.dump();
  // Inside a script element only "<" could end the data early.
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace tessera
