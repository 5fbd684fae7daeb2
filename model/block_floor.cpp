// Bounds of the batched path and the slices of a pruned search.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/block_impl.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

FloorShape BlockCost::Impl::floor_shape(std::size_t b, std::size_t v) {
  const Variant& x = axes.variant[v];
  const Placed& p = layout(v);
  const std::vector<FloorPlace>& places = x.schedule == Schedule::dualpipe && mesh.pp > 1 ? p.pair_floors : p.device_floors;
  const double hop = mesh.pp == 1 ? 0 : x.virtual_stages > 1 ? hops[b].hop_interleaved : hops[b].hop;
  return {places.data(), places.size(), x.schedule, double(micro_batches[b]), hop, 0, 0, 0, cluster.stack.step_seconds, stage_jitter, device_jitter};
}

namespace {

// The shape with what a step adds where gradients are whole, and where they are sharded; the least counts.
template <class Floor>
void by_kind(FloorShape shape, const StepFloor& step, Floor floor) {
  const double fixed = shape.fixed;
  shape.fixed = fixed + step.replicated;
  if (std::isfinite(step.replicated)) floor(shape);
  if (!std::isfinite(step.sharded)) return;
  shape.fixed = fixed + step.sharded;
  shape.shard_dense = step.shard_dense, shape.shard_moe = step.shard_moe, shape.shard_end = step.shard_end;
  floor(shape);
}

}  // namespace

void BlockCost::Impl::mode_floors(std::size_t b, std::size_t v, const StepFloor& step, Row& out) {
  const ShardCost& cost = entry(b);
  const TimesRows& moe = axes.variant[v].schedule == Schedule::dualpipe ? cost.moe_overlapped : cost.moe;
  alignas(32) Row coupling, row;
  for (int lane = 0; lane < kLanes; ++lane) coupling[lane] = cost.coupling[lane] * coupling_growth;
  std::fill(out, out + kLanes, std::numeric_limits<double>::infinity());
  by_kind(floor_shape(b, v), step, [&](const FloorShape& shape) {
    kernel->floor({shape, &cost.pieces->dense, &moe, &cost.pieces->tokens->embedding, &cost.pieces->tokens->head, coupling,
                   double(architecture.mtp_layers)}, row);
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = std::min(out[lane], row[lane]);
  });
}

double BlockCost::mesh_time_floor(std::size_t b, std::size_t v) const {
  Impl& i = *impl_;
  const DensePieces& p = i.pieces(b);
  const PartTimes<double> work{p.least_dense, p.least_moe, &p.tokens->embedding, &p.tokens->head, double(i.architecture.mtp_layers)};
  return step_floor<double>(i.floor_shape(b, v), work, 0);
}

double BlockCost::time_floor(std::size_t b, std::size_t v, const StepFloor& step) const {
  Impl& i = *impl_;
  const ShardFloor& shard = i.shard_floor(b);
  const DensePieces& p = i.pieces(b);
  const Times<double> moe = bound_of(i.axes.variant[v].schedule == Schedule::dualpipe ? shard.least_overlapped : shard.least);
  const PartTimes<double> work{p.least_dense, moe, &p.tokens->embedding, &p.tokens->head, double(i.architecture.mtp_layers)};
  double least = std::numeric_limits<double>::infinity();
  by_kind(i.floor_shape(b, v), step, [&](const FloorShape& shape) { least = std::min(least, step_floor<double>(shape, work, 0)); });
  return least;
}

double BlockCost::states_floor(int ep, int etp, const std::uint8_t* zero, double enough) const {
  Impl& i = *impl_;
  Plan p = i.mesh;
  p.ep = ep;
  p.etp = etp;
  MeshCost& c = i.parameters;
  if (i.parameters_tp != p.tp) add_parameters(i.setting, p, c);
  i.parameters_tp = p.tp;
  if (i.architecture.is_moe()) c.moe_expert_parameters = expert_parameters(i.architecture, ep, etp);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t z = i.axes.zero.size(); z-- > 0 && least > enough;) {  // the last needs least, mostly
    if (!zero[z]) continue;
    p.zero = i.axes.zero[z];
    least = std::min(least, least_states(i.setting, p, c));
  }
  return least;
}

StepFloor BlockCost::floor(const std::uint8_t* zero) const {
  Impl& i = *impl_;
  i.price_mesh();
  constexpr double kNone = std::numeric_limits<double>::infinity();
  StepFloor out{kNone, kNone, kNone, kNone, kNone};
  for (std::size_t z = 0; z < i.axes.zero.size(); ++z) {
    if (!zero[z]) continue;
    const BlockFloor f = block_floor(i.setting, i.plan(z, 0), i.mesh_costs[0]);
    double& once = i.axes.zero[z] < 2 ? out.replicated : out.sharded;
    once = std::min(once, f.once);
    if (i.axes.zero[z] < 2) continue;
    out.shard_dense = std::min(out.shard_dense, f.shard_dense);
    out.shard_moe = std::min(out.shard_moe, f.shard_moe);
    out.shard_end = std::min(out.shard_end, f.shard_end);
  }
  return out;
}

SliceCost BlockCost::slice(std::size_t b, std::size_t v, const StepFloor& step, const std::uint8_t* zero, const std::uint8_t* mode,
                           double limit) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  SliceCost out;
  alignas(32) Row floor{};
  if (std::isfinite(limit)) i.mode_floors(b, v, step, floor);
  std::array<std::uint8_t, kLanes> near{};
  const std::size_t modes = x.recompute.size();
  for (std::size_t r = 0; r < modes; ++r) near[r] = mode[r] && floor[r] <= limit;
  if (std::any_of(near.begin(), near.end(), [](std::uint8_t n) { return n != 0; })) {
    i.price_mesh();
    i.run_kernel(b, v, zero, near.data());
  }
  for (std::size_t z = 0; z < x.zero.size(); ++z)
    for (std::size_t r = 0; zero[z] && r < modes; ++r) {
      if (!mode[r]) continue;
      const std::size_t index = x.index(z, b, r, v);
      if (!near[r]) {
        ++out.slower;
        out.first_slower = std::min(out.first_slower, index);
        continue;
      }
      const PlanCost cost = i.result(z, r);
      if (cost.memory_with_reserve_bytes > i.capacity) {
        ++out.misfits;
        out.first_misfit = std::min(out.first_misfit, index);
        if (out.miss == SliceCost::kNone || cost.memory_with_reserve_bytes < out.miss_cost.memory_with_reserve_bytes) out.miss = index, out.miss_cost = cost;
        continue;
      }
      ++out.fits;
      // Indices rise, so of equal times the first stays. A time that is no number passes, for the caller to see.
      if (out.best == SliceCost::kNone || !(cost.step_seconds >= out.cost.step_seconds)) out.best = index, out.cost = cost;
    }
  return out;
}

}  // namespace tessera
