#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/report_parts.hpp"
#include "io/trust.hpp"
#include "search/walker.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/units.hpp"

namespace tessera::reporting {
namespace {

// Groups of the breakdown that a bar can show; their sum is the step time.
Json seconds_of(const TimeBreakdown& t) {
  // Parts that are differences of nearly equal times may come out as -1e-16: that is nothing.
  const double noise = 1e-9 * t.sum();
  const auto part = [&](double seconds) { return rounded(std::abs(seconds) < noise ? 0.0 : seconds); };
  return Json{{"Matrix products", part(t.gemm + t.head)},
              {"Experts", part(t.experts)},
              {"Attention", part(t.attention)},
              {"Point-wise and casts", part(t.pointwise + t.casts)},
              {"Recomputation", part(t.recompute)},
              {"Optimizer", part(t.optimizer)},
              {"Expert exchange", part(t.expert_exchange)},
              {"Tensor and context parallel", part(t.tensor_parallel + t.context_parallel)},
              {"Data parallel", part(t.data_parallel)},
              {"Stage to stage", part(t.point_to_point)},
              {"Pipeline ramp", part(t.ramp)},
              {"Host and jitter", part(t.host + t.fixed + t.jitter)}};
}

Json bytes_of(const StageMemory& m, double reserve) {
  return Json{
      {"Weights", rounded(m.weights)},
      {"Gradients", rounded(m.gradients)},
      {"Optimizer state", rounded(m.optimizer)},
      {"Activations", rounded(m.activations)},
      {"Buffers and working set", rounded(m.wgrad_buffers + m.working_set + m.point_to_point + m.constant)},
      {"Reserve", rounded(reserve)}};
}

// The part of the study that one map needs: one cluster, batch and architecture, everything recorded.
Study single(const Study& study, std::uint32_t cluster, std::uint32_t batch, std::uint32_t architecture) {
  Study s = study;
  s.clusters = {study.clusters[cluster]};
  s.batches = {study.batches[batch]};
  s.architectures = {study.architectures[architecture]};
  s.counts = {study.counts[architecture]};
  s.record = Record::all;
  s.search = Search::exhaustive;
  return s;
}

struct Cell {
  double seconds = 0, bytes = 0;  ///< of the fastest plan that fits; where none fits: of the smallest
  std::uint64_t id = kNoId;
  bool fits = false;
};

}  // namespace

Json rounded(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.{}g}", value, digits));
}

std::string short_plan(const Plan& p) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const auto& [name, degree] : {std::pair{"tp", p.tp},
                                     {"cp", p.cp},
                                     {"pp", p.pp},
                                     {"dp", p.dp},
                                     {"ep", p.ep},
                                     {"etp", p.etp},
                                     {"v", p.virtual_stages}})
    if (degree > 1) add(fmt::format("{} {}", name, degree));
  add(fmt::format("micro-batch {}", p.micro_batch));
  if (p.recompute != Recompute::none) add(fmt::format("{} recomputation", to_string(p.recompute)));
  if (p.zero != 1) add(fmt::format("ZeRO {}", p.zero));
  if (p.schedule != Schedule::one_f_one_b) add(std::string(to_string(p.schedule)));
  if (p.precision != Precision::bf16) add(std::string(to_string(p.precision)));
  return text;
}

double expected_time_error(const Study& study, const TopRow& row) {
  return trust_in(study.architectures[row.architecture], study.clusters[row.cluster], row.plan, study.sequence).expected_error;
}

Json breakdown(const Study& study, const TopRow& row) {
  const Cluster& cluster = study.clusters[row.cluster];
  const StepCost cost = evaluate(study.architectures[row.architecture], cluster, row.plan, study.sequence);
  const StageMemory& heaviest = cost.stages.at(static_cast<std::size_t>(cost.heaviest_stage));
  return Json{{"name", short_name(study.architectures[row.architecture])},
              {"plan", short_plan(row.plan)},
              {"rank", row.rank},
              {"step_seconds", rounded(cost.step_seconds)},
              {"seconds", seconds_of(cost.time)},
              {"memory_with_reserve_bytes", rounded(cost.memory_with_reserve_bytes)},
              {"capacity_bytes", rounded(cost.capacity_bytes)},
              {"stage", cost.heaviest_stage + 1},
              {"stages", cost.stages.size()},
              {"expected_error", rounded(cost.expected_error, 3)},
              {"bytes", bytes_of(heaviest, cost.memory_with_reserve_bytes - cost.memory_bytes)}};
}

Json mesh_map(const Study& study, std::uint32_t cluster, std::uint32_t batch, std::uint32_t architecture) {
  const Study one = single(study, cluster, batch, architecture);
  const Space space(one);
  std::map<std::pair<int, int>, Cell> cells;
  Walker walker(space);
  for (std::uint64_t unit = 0; unit < space.units(); ++unit) {
    const Columns rows = walker.run(unit).columns;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Digits digits = space.decode(rows.id[i]);
      const bool fits = rows.status[i] == static_cast<std::uint8_t>(Status::fits);
      Cell& cell = cells[{space.meshes(0)[digits.mesh].pp, space.expert_meshes(0)[digits.expert].ep}];
      const double seconds = rows.step_seconds[i], bytes = rows.memory_bytes[i];
      // Ids ascend: of equals the first stays.
      const bool better = cell.id == kNoId || (fits && !cell.fits) || (fits && seconds < cell.seconds) ||
                          (!fits && !cell.fits && bytes < cell.bytes);
      if (better) cell = {seconds, bytes, rows.id[i], fits};
    }
  }
  std::set<int> pps, eps;
  for (const auto& [key, cell] : cells) pps.insert(key.first), eps.insert(key.second);
  const std::vector<int> pp(pps.begin(), pps.end()), ep(eps.begin(), eps.end());
  Json list = Json::array();
  const Cluster& c = one.clusters.front();
  for (const auto& [key, cell] : cells) {
    const auto at = [](const std::vector<int>& axis, int value) {
      return std::lower_bound(axis.begin(), axis.end(), value) - axis.begin();
    };
    const Plan plan = space.plan(space.decode(cell.id));
    const double mfu = cell.fits
                           ? law_mfu(static_cast<double>(one.counts.front().non_embedding_active), plan.batch,
                                     one.sequence, cell.seconds, c.devices, c.peak(Precision::bf16))
                           : 0.0;
    list.push_back(
        Json::array({at(pp, key.first), at(ep, key.second), cell.fits ? rounded(100 * mfu, 4) : Json(nullptr),
                     rounded(cell.bytes / kGiB, 4), short_plan(plan)}));
  }
  return Json{{"pp", pp}, {"ep", ep}, {"cells", std::move(list)}};
}

}  // namespace tessera::reporting
