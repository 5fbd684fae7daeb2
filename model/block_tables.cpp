// Tables of the batched path: what depends on few digits of a plan is computed once and kept.
#include <algorithm>
#include <vector>

#include "model/block_impl.hpp"
#include "tessera/error.hpp"

namespace tessera {

BlockCost::Impl::Impl(const Architecture& a, const Cluster& c, const InnerAxes& x, std::int64_t b, std::int64_t s, Precision p, Optimizer o,
                      std::pmr::memory_resource* m)
    : architecture(a), cluster(c), axes(x), batch(b), sequence(s), precision(p), optimizer(o),
      setting{&architecture, &cluster, s, p}, has_dense(!a.is_moe() || a.dense_ffn > 0),
      any_dualpipe(has_dualpipe(x, c.stack)), capacity(c.memory_cap > 0 ? c.memory_cap : c.device.capacity),
      memory(m), device_jitter(machine_jitter(setting, double(c.devices))), results(x.zero.size()), wanted(x.zero.size() * x.variant.size()),
      joined(x.variant.size()) {
  if (axes.recompute.size() > kLanes) throw InputError("too many recomputation modes", "there are four", "name each once");
  for (std::size_t i = 0; i < axes.micro_batch.size(); ++i) rising_batches.push_back(i);
  for (std::size_t i = 0; i < axes.recompute.size(); ++i) falling_memory.push_back(i);
  std::stable_sort(rising_batches.begin(), rising_batches.end(), [&](auto l, auto r) { return axes.micro_batch[l] < axes.micro_batch[r]; });
  std::stable_sort(falling_memory.begin(), falling_memory.end(), [&](auto l, auto r) { return axes.recompute[l] > axes.recompute[r]; });
}

const TokenPieces& BlockCost::Impl::tokens(std::size_t b) {
  const auto [at, made] = token_pieces.try_emplace((std::uint64_t(mesh.tp) << 42) | std::uint64_t(local_tokens(b)));
  TokenPieces& p = at->second;
  if (!made) return p;
  const Shard s = shard(b);
  p.projections = projection_piece(setting, s);
  if (has_dense) p.dense_ffn = dense_ffn_piece(setting, s);
  if (architecture.is_moe()) p.beside_experts = beside_experts_piece(setting, s);
  if (architecture.is_moe()) p.least_experts = least_expert_piece(setting, s, p.beside_experts);
  p.embedding = times_of(embedding_work(setting, s));
  p.head = times_of(head_work(setting, s));
  return p;
}

DensePieces& BlockCost::Impl::pieces(std::size_t b) {
  if (mesh_pieces[b]) return *mesh_pieces[b];
  const auto [at, made] = dense_pieces.try_emplace(shard_key(b, mesh.tp, mesh.cp));
  DensePieces& p = at->second;
  mesh_pieces[b] = &p;
  if (!made) return p;
  const Shard s = shard(b);
  const TokenPieces& t = tokens(b);
  p.tokens = &t;
  p.attention = attention_piece(setting, s, t.projections);
  p.least_dense = p.least_moe = {};
  if (has_dense) p.least_dense = bound_of(layer_floor(setting, p.attention, t.dense_ffn, false, {}));
  if (architecture.is_moe()) p.least_moe = bound_of(layer_floor(setting, p.attention, t.least_experts, true, {}));
  return p;
}

void BlockCost::Impl::add_modes(std::size_t b, DensePieces& p) {
  if (p.has_modes) return;
  p.has_modes = true;
  for (int lane = 0; lane < kLanes; ++lane) {
    p.dense.set(lane, has_dense ? times_of(layer_work(setting, p.attention, p.tokens->dense_ffn, false, modules(lane), false)) : Times<double>{});
    p.memory[lane] = dense_memory(setting, shard(b), modules(lane));
    p.dense_saved.set(lane, p.memory[lane].dense);
  }
}

const Piece& BlockCost::Impl::experts(std::size_t b) {
  ShardFloor& f = table->floors[b];
  if (!f.experts) f.experts = &expert_pieces.emplace_back(expert_piece(setting, shard(b), pieces(b).tokens->beside_experts));
  return *f.experts;
}

const ShardFloor& BlockCost::Impl::shard_floor(std::size_t b) {
  ShardFloor& f = table->floors[b];
  if (f.known) return f;
  f.known = true;
  if (!architecture.is_moe()) return f;
  const DensePieces& p = pieces(b);
  const Piece& e = experts(b);
  f.least = layer_floor(setting, p.attention, e, true, exposed_exchange(cluster.stack, e, false));
  f.least_overlapped = any_dualpipe ? layer_floor(setting, p.attention, e, true, exposed_exchange(cluster.stack, e, true)) : f.least;
  return f;
}

const ShardCost& BlockCost::Impl::entry(std::size_t b) {
  ShardCost*& made = table->costs[b];
  if (made) return *made;
  ShardCost& c = shard_costs.emplace_back();
  made = &c;
  const Shard s = shard(b);
  DensePieces& p = pieces(b);
  add_modes(b, p);
  c.pieces = &p;
  const Piece* ffn = architecture.is_moe() ? &experts(b) : nullptr;
  c.memory = p.memory;
  for (int lane = 0; lane < kLanes; ++lane) {
    c.coupling[lane] = 0;
    Work work{};
    if (architecture.is_moe()) {
      c.memory[lane].moe = layer_memory(setting, s, true, modules(lane));
      work = layer_work(setting, p.attention, *ffn, true, modules(lane), false);
      c.coupling[lane] = stage_coupling(setting, s, 1, work);
    }
    c.moe_saved.set(lane, c.memory[lane].moe);
    c.moe.set(lane, times_of(work));
    if (any_dualpipe && architecture.is_moe()) work = layer_work(setting, p.attention, *ffn, true, modules(lane), true);
    c.moe_overlapped.set(lane, times_of(work));
  }
  return c;
}

const Placed& BlockCost::Impl::layout(std::size_t v) {
  if (placed[v]) return *placed[v];
  const int pp = mesh.pp, stages = axes.variant[v].virtual_stages;
  const std::uint64_t key = (std::uint64_t(pp) << 32) | std::uint64_t(stages);
  const auto [at, made] = layouts.try_emplace(key);
  if (made) {
    Placed& p = at->second;
    p.layout = make_layout(architecture, cluster.stack, pp, stages);
    p.devices = places_of(p.layout.devices);
    p.pairs = places_of(p.layout.pairs);
    p.device_floors = floors_of(p.layout.devices, p.layout.parts, stages);
    p.pair_floors = floors_of(p.layout.pairs, p.layout.parts, 2);
  }
  placed[v] = &at->second;
  return at->second;
}

VariantState& BlockCost::Impl::variant(std::size_t v) {
  VariantState& state = variants[v];
  if (state.block == block) return state;
  state.block = block;
  const Variant& x = axes.variant[v];
  const bool dual = x.schedule == Schedule::dualpipe && mesh.pp > 1;
  state.placed = &layout(v);
  state.runs = dual ? &state.placed->layout.pairs : &state.placed->layout.devices;
  state.places = dual ? &state.placed->pairs : &state.placed->devices;
  const std::size_t count = state.places->size();
  state.states.resize(axes.zero.size() * count);
  state.optimizer.resize(axes.zero.size());
  state.known.assign(axes.zero.size(), 0);
  return state;
}

// Parameters and optimizer depend on neither micro-batch nor recomputation.
void BlockCost::Impl::know(VariantState& state, std::size_t z, std::size_t v, const PartMemory& any) {
  if (state.known[z]) return;
  state.known[z] = 1;
  const Plan p = plan(z, v);
  const std::size_t count = state.places->size();
  state.optimizer[z] = optimizer_seconds(state.placed->layout, mesh_costs[0], p.zero);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t run = (*state.places)[k].run;
    const bool same = k > 0 && run == (*state.places)[k - 1].run;
    state.states[z * count + k] = same ? state.states[z * count + k - 1] : state_bytes(setting, (*state.runs)[run], any, p).sum();
  }
}

// What the selected mesh costs; of it the hops alone depend on the micro-batch.
void BlockCost::Impl::price_mesh() {
  if (mesh_priced) return;
  mesh_priced = true;
  for (std::size_t b = 0; b < axes.micro_batch.size(); ++b) {
    mesh_costs[b] = b == 0 ? mesh_cost(setting, mesh) : mesh_costs[0];
    mesh_costs[b].hop = hops[b].hop;
    mesh_costs[b].hop_interleaved = hops[b].hop_interleaved;
  }
}

}  // namespace tessera
