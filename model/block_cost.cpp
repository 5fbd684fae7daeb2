// The batched path: a block's plans from its tables (block_tables.cpp). The formulas are those of composition_forms.hpp, which
// the scalar reference uses too.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "model/block_impl.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

// Memory with reserve of one mode, by the scalar forms.
double BlockCost::Impl::reserved(const VariantState& state, std::size_t z, std::size_t b, std::size_t v, const PartMemory& memory) const {
  const std::size_t count = state.places->size();
  const Plan p = plan(z, v);
  double most = 0, passing = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const Place& place = (*state.places)[k];
    const PassingBytes bytes = passing_bytes(setting, (*state.runs)[place.run], place.stage, memory, p, micro_batches[b]);
    const double allocated = state.states[z * count + k] + bytes.sum();
    if (allocated > most) most = allocated, passing = bytes.activations + bytes.working_set;
  }
  return reserve_bytes(cluster, mesh, most, passing, local_tokens(b));
}

// Fills `wanted` for a micro-batch. Modes are legal or not mostly together, so their rows are joined in words of eight
// variants, the last word overlapping the one before.
void BlockCost::Impl::want(std::size_t b, const std::uint8_t* legal) {
  using Word = std::uint64_t;
  constexpr std::size_t kWord = sizeof(Word);
  const std::size_t zeros = axes.zero.size(), modes = axes.recompute.size(), count = axes.variant.size();
  std::fill(wanted.begin(), wanted.end(), std::uint8_t{0});
  for (std::size_t z = 0; z < zeros; ++z) {
    const std::uint8_t* at = legal + axes.index(z, b, 0, 0);
    Word all = 0;
    if (count < kWord) {
      std::fill(joined.begin(), joined.end(), std::uint8_t{0});
      for (std::size_t i = 0; i < modes * count; ++i) all |= at[i], joined[i % count] |= at[i];
    }
    for (std::size_t v = 0; count >= kWord && v < count; v += kWord) {
      const std::size_t first = std::min(v, count - kWord);
      Word word = 0;
      for (std::size_t r = 0; r < modes; ++r) {
        Word row;
        std::memcpy(&row, at + r * count + first, kWord);
        word |= row;
      }
      std::memcpy(&joined[first], &word, kWord);
      all |= word;
    }
    for (std::size_t v = 0; all != 0 && v < count; ++v) wanted[v * zeros + z] = joined[v];
  }
}

void BlockCost::Impl::run_kernel(std::size_t b, std::size_t v, const std::uint8_t* wanted, const std::uint8_t* modes) {
  const std::size_t zeros = axes.zero.size();
  const ShardCost& cost = entry(b);
  const PartMemory& memory = cost.memory[0];
  VariantState& state = variant(v);
  for (std::size_t z = 0; z < zeros; ++z)
    if (wanted[z]) know(state, z, v, memory);
  const Variant& x = axes.variant[v];
  const bool overlapped = x.schedule == Schedule::dualpipe;
  const std::int64_t n = micro_batches[b];
  places.clear();
  const Plan p = plan(0, v);
  for (const Place& place : *state.places) places.push_back({&(*state.runs)[place.run], flight(p, n, place.stage)});
  alignas(32) Row coupling;
  for (int lane = 0; lane < kLanes; ++lane) coupling[lane] = cost.coupling[lane] * coupling_growth;

  LaneTask t;
  t.stack = &cluster.stack;
  t.layout = &state.placed->layout;
  t.mesh = &mesh_costs[b];
  t.memory = &memory;
  t.dense = &cost.pieces->dense;
  t.moe = overlapped ? &cost.moe_overlapped : &cost.moe;
  t.embedding = &cost.pieces->tokens->embedding;
  t.head = &cost.pieces->tokens->head;
  t.dense_saved = &cost.pieces->dense_saved;
  t.moe_saved = &cost.moe_saved;
  t.coupling = coupling;
  t.mtp_heads = double(architecture.mtp_layers);
  t.stage_jitter = stage_jitter;
  t.schedule = x.schedule;
  t.pp = mesh.pp;
  t.virtual_stages = x.virtual_stages;
  t.micro_batches = n;
  t.places = places.data();
  t.place_count = places.size();
  t.passing_constant = (mesh.pp > 1 ? 2 * memory.layer_input : 0) + cluster.stack.memory_constant;
  t.fragmentation = fragmentation_of(cluster.stack, mesh.tp, local_tokens(b));
  t.reserve_constant = cluster.stack.context_bytes + cluster.stack.buffer_bytes;
  t.capacity = capacity;
  t.states = state.states.data();
  t.zero = axes.zero.data();
  t.zero_wanted = wanted;
  t.zero_count = zeros;
  t.optimizer = state.optimizer.data();
  t.mode_wanted = modes;
  kernel->run(t, results.data());
}

PlanCost BlockCost::Impl::result(std::size_t z, std::size_t lane) const {
  const LaneResult& r = results[z];
  if (r.reserved[lane] > capacity) return {0, r.memory[lane], r.reserved[lane], 0, 0, 0, 0};
  return {r.step[lane], r.memory[lane], r.reserved[lane], r.compute[lane], r.communication[lane], r.ramp[lane], r.host[lane]};
}

void BlockCost::Impl::cost_of(std::size_t b, std::size_t v, const std::uint8_t* wanted, const std::uint8_t* legal, PlanCost* out) {
  const std::size_t modes = axes.recompute.size(), stride = axes.variant.size(), zeros = axes.zero.size();
  constexpr std::uint8_t kAll[kLanes] = {1, 1, 1, 1};
  run_kernel(b, v, wanted, kAll);
  for (std::size_t z = 0; z < zeros; ++z) {
    if (!wanted[z]) continue;
    std::size_t index = axes.index(z, b, 0, v);
    for (std::size_t lane = 0; lane < modes; ++lane, index += stride)
      if (legal[index]) out[index] = result(z, lane);
  }
}

BlockCost::BlockCost(const Architecture& a, const Cluster& c, const InnerAxes& axes, std::int64_t batch, std::int64_t sequence, Precision precision,
                     Optimizer optimizer, std::pmr::memory_resource* memory)
    : impl_(new Impl(a, c, axes, batch, sequence, precision, optimizer, memory)) {}
BlockCost::~BlockCost() { delete impl_; }
BlockCost::BlockCost(BlockCost&& other) noexcept : impl_(other.impl_) { other.impl_ = nullptr; }

void BlockCost::Impl::select_mesh(const Plan& m) {
  if (m.pp != mesh.pp || placed.empty()) placed.assign(axes.variant.size(), nullptr);
  mesh = m;
  mesh.precision = precision;
  mesh.optimizer = optimizer;
  mesh.batch = batch;
  stage_jitter = relative_stage_jitter(setting, mesh.pp);
  coupling_growth = std::log2(1.0 + mesh.pp);
  shard_row = &shards.try_emplace(shard_key(0, mesh.tp, mesh.cp), memory).first->second;
  mesh_pieces.assign(axes.micro_batch.size(), nullptr);
  hops.resize(axes.micro_batch.size());
  micro_batches.resize(axes.micro_batch.size());
  for (std::size_t b = 0; b < axes.micro_batch.size(); ++b) {
    const std::int64_t rank_batch = std::int64_t{1} * mesh.dp * axes.micro_batch[b];
    micro_batches[b] = batch % rank_batch == 0 ? batch / rank_batch : 0;
    add_hops(setting, mesh, axes.micro_batch[b], hops[b]);
  }
}

void BlockCost::Impl::select_experts(int ep, int etp) {
  mesh.ep = ep;
  mesh.etp = etp;
  table = &shard_row->at(ep, etp, axes.micro_batch.size(), memory);
  variants.resize(axes.variant.size());
  ++block;
  mesh_priced = false;
  mesh_costs.resize(axes.micro_batch.size());
}

void BlockCost::select_mesh(const Plan& mesh) { impl_->select_mesh(mesh); }
void BlockCost::select_experts(int ep, int etp) { impl_->select_experts(ep, etp); }
void BlockCost::select(const Plan& mesh) {
  impl_->select_mesh(mesh);
  impl_->select_experts(mesh.ep, mesh.etp);
}

double BlockCost::memory_floor(std::size_t z, const std::uint8_t* legal, double enough) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  i.price_mesh();
  // Memory falls with the micro-batch and along recomputation none -> full; no variant needs less than the least of them.
  double floor = std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < x.variant.size(); ++v) {
    bool found = false;
    for (std::size_t b : i.rising_batches)
      for (std::size_t r : i.falling_memory) {
        if (found) break;
        if (!legal[x.index(z, b, r, v)] || i.micro_batches[b] == 0) continue;
        const PartMemory& memory = i.entry(b).memory[r];
        VariantState& state = i.variant(v);
        i.know(state, z, v, memory);
        floor = std::min(floor, i.reserved(state, z, b, v, memory));
        found = true;
      }
    if (floor <= enough) break;
  }
  return floor;
}

void BlockCost::cost(const std::uint8_t* legal, PlanCost* out) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  i.price_mesh();
  for (std::size_t b = 0; b < x.micro_batch.size(); ++b) {
    if (i.micro_batches[b] == 0) continue;
    i.want(b, legal);
    for (std::size_t v = 0; v < x.variant.size(); ++v)
      if (i.wanted_any(v)) i.cost_of(b, v, &i.wanted[v * x.zero.size()], legal, out);
  }
}

}  // namespace tessera
