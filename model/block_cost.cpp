// The batched path: what depends on few digits of a plan is computed once and kept, the rest is composed per plan. The
// formulas are those of composition_forms.hpp, which the scalar reference uses too.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "model/block_tables.hpp"
#include "model/composition.hpp"
#include "model/recompute.hpp"
#include "tessera/error.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

struct BlockCost::Impl {
  Architecture architecture;
  Cluster cluster;
  InnerAxes axes;
  std::int64_t batch, sequence;
  Precision precision;
  Optimizer optimizer;
  Setting setting;
  bool has_dense, any_dualpipe;
  double capacity;
  std::vector<std::size_t> rising_batches, falling_memory;  // indices: micro-batches upwards, recomputation from full down
  const LaneKernel* kernel = &lane_kernel();

  std::unordered_map<std::uint64_t, DensePieces> dense_pieces;
  std::unordered_map<ShardId, std::vector<ShardCost>, ShardHash> shards;  // by micro-batch
  std::unordered_map<std::uint64_t, Placed> layouts;

  // The selected block.
  Plan mesh;
  std::vector<ShardCost>* table = nullptr;
  std::vector<MeshCost> mesh_costs;          // per micro-batch, once mesh_priced
  bool mesh_priced = false;
  std::vector<std::int64_t> micro_batches;   // n_mb per micro-batch, 0: does not divide
  std::vector<VariantState> variants;
  double stage_jitter = 0, coupling_growth = 0;
  std::vector<PlaceTask> places;             // scratch of cost_of()
  std::vector<LaneResult> results;
  std::vector<std::uint8_t> wanted;          // scratch of cost(): [variant][ZeRO index], some mode is legal
  std::vector<std::uint8_t> joined;          // scratch of want(): by variant

  Impl(const Architecture& a, const Cluster& c, const InnerAxes& x, std::int64_t b, std::int64_t s, Precision p, Optimizer o)
      : architecture(a), cluster(c), axes(x), batch(b), sequence(s), precision(p), optimizer(o),
        setting{&architecture, &cluster, s, p}, has_dense(!a.is_moe() || a.dense_ffn > 0),
        any_dualpipe(has_dualpipe(x, c.stack)),
        capacity(c.memory_cap > 0 ? c.memory_cap : c.device.capacity), results(x.zero.size()), wanted(x.zero.size() * x.variant.size()), joined(x.variant.size()) {
    if (axes.recompute.size() > kLanes) throw InputError("too many recomputation modes", "there are four", "name each once");
    for (std::size_t i = 0; i < axes.micro_batch.size(); ++i) rising_batches.push_back(i);
    for (std::size_t i = 0; i < axes.recompute.size(); ++i) falling_memory.push_back(i);
    std::stable_sort(rising_batches.begin(), rising_batches.end(), [&](auto l, auto r) { return axes.micro_batch[l] < axes.micro_batch[r]; });
    std::stable_sort(falling_memory.begin(), falling_memory.end(), [&](auto l, auto r) { return axes.recompute[l] > axes.recompute[r]; });
  }

  Shard shard(std::size_t b) const { return {mesh.tp, mesh.cp, mesh.ep, mesh.etp, axes.micro_batch[b]}; }

  const DensePieces& pieces(std::size_t b) {
    const auto key = shard_key(b, mesh.tp, mesh.cp);
    const auto at = dense_pieces.find(key);
    if (at != dense_pieces.end()) return at->second;
    DensePieces& p = dense_pieces[key];
    const Shard s = shard(b);
    p.attention = attention_piece(setting, s);
    Piece ffn;
    if (has_dense) ffn = dense_ffn_piece(setting, s);
    for (int lane = 0; lane < kLanes; ++lane) {
      p.dense.set(lane, has_dense ? times_of(layer_work(setting, p.attention, ffn, false, modules(lane), false)) : Times<double>{});
      p.memory[lane] = dense_memory(setting, s, modules(lane));
      p.dense_saved.set(lane, p.memory[lane].dense);
    }
    p.least_forward = least_of(p.dense.forward);
    p.least_backward = least_backward(p.dense);
    p.embedding = times_of(embedding_work(setting, s));
    p.head = times_of(head_work(setting, s));
    return p;
  }

  // Modules of a mode of the axis; lanes beyond it repeat the first.
  unsigned modules(int lane) const {
    return recompute_modules(axes.recompute[std::size_t(lane) < axes.recompute.size() ? std::size_t(lane) : 0]);
  }

  void fill(std::size_t b, ShardCost& c) {
    const Shard s = shard(b);
    const DensePieces& p = pieces(b);
    c.pieces = &p;
    Piece experts;
    if (architecture.is_moe()) experts = expert_piece(setting, s);
    c.memory = p.memory;
    for (int lane = 0; lane < kLanes; ++lane) {
      c.coupling[lane] = 0;
      Work work{};
      if (architecture.is_moe()) {
        c.memory[lane].moe = layer_memory(setting, s, true, modules(lane));
        work = layer_work(setting, p.attention, experts, true, modules(lane), false);
        c.coupling[lane] = stage_coupling(setting, s, 1, work);
      }
      c.moe_saved.set(lane, c.memory[lane].moe);
      c.moe.set(lane, times_of(work));
      if (any_dualpipe && architecture.is_moe()) work = layer_work(setting, p.attention, experts, true, modules(lane), true);
      c.moe_overlapped.set(lane, times_of(work));
    }
    c.least_forward = std::min(least_of(c.moe.forward), least_of(c.moe_overlapped.forward));
    c.least_backward = std::min(least_backward(c.moe), least_backward(c.moe_overlapped));
    c.ready = true;
  }

  const Placed& layout(int pp, int v) {
    const std::uint64_t key = (std::uint64_t(pp) << 32) | std::uint64_t(v);
    const auto at = layouts.find(key);
    if (at != layouts.end()) return at->second;
    Placed p;
    p.layout = make_layout(architecture, cluster.stack, pp, v);
    p.devices = places_of(p.layout.devices);
    p.pairs = places_of(p.layout.pairs);
    add_means(p, pp);
    return layouts.emplace(key, std::move(p)).first->second;
  }

  const ShardCost& entry(std::size_t b) {
    ShardCost& c = (*table)[b];
    if (!c.ready) fill(b, c);
    return c;
  }

  double local_tokens(std::size_t b) const { return double(axes.micro_batch[b]) * double(sequence) / mesh.cp; }

  Plan plan(std::size_t z, std::size_t v) const {
    Plan p = mesh;
    p.zero = axes.zero[z];
    p.schedule = axes.variant[v].schedule;
    p.virtual_stages = axes.variant[v].virtual_stages;
    return p;
  }

  VariantState& variant(std::size_t v) {
    VariantState& state = variants[v];
    if (state.ready) return state;
    const Variant& x = axes.variant[v];
    const bool dual = x.schedule == Schedule::dualpipe && mesh.pp > 1;
    state.placed = &layout(mesh.pp, x.virtual_stages);
    state.runs = dual ? &state.placed->layout.pairs : &state.placed->layout.devices;
    state.places = dual ? &state.placed->pairs : &state.placed->devices;
    const std::size_t count = state.places->size();
    state.states.resize(axes.zero.size() * count);
    state.optimizer.resize(axes.zero.size());
    state.known.assign(axes.zero.size(), 0);
    state.ready = true;
    return state;
  }

  // Parameters and optimizer depend on neither micro-batch nor recomputation.
  void know(VariantState& state, std::size_t z, std::size_t v, const PartMemory& any) {
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

  // Memory with reserve of one mode, by the scalar forms.
  double reserved(const VariantState& state, std::size_t z, std::size_t b, std::size_t v, const PartMemory& memory) const {
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
  void want(std::size_t b, const std::uint8_t* legal) {
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
  bool wanted_any(std::size_t v) const {
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(v * axes.zero.size());
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(axes.zero.size()), [](std::uint8_t w) { return w != 0; });
  }

  // What the selected mesh costs; of it the hops alone depend on the micro-batch.
  void price_mesh() {
    if (mesh_priced) return;
    mesh_priced = true;
    for (std::size_t b = 0; b < axes.micro_batch.size(); ++b) {
      mesh_costs[b] = b == 0 ? mesh_cost(setting, mesh) : mesh_costs[0];
      add_hops(setting, mesh, axes.micro_batch[b], mesh_costs[b]);
    }
  }

  // Lower bound of the step time of one (micro-batch, variant).
  double time_floor(std::size_t b, std::size_t v) {
    const ShardCost& cost = entry(b);
    const DensePieces& pieces = *cost.pieces;
    const Variant& x = axes.variant[v];
    const Placed& placed = layout(mesh.pp, x.virtual_stages);
    const double heads = 1 + double(architecture.mtp_layers), n = double(micro_batches[b]);
    const double ends = pieces.embedding.forward + pieces.embedding.backward() + heads * (pieces.head.forward + pieces.head.backward());
    // The way to a device and, where its last operation is a backward, the way back.
    const double forth = x.schedule == Schedule::dualpipe ? 0 : 1;
    const double back = x.schedule == Schedule::one_f_one_b || x.schedule == Schedule::interleaved ? 1 : 0;
    const double all = placed.dense * (pieces.least_forward + pieces.least_backward) +
                       placed.moe * (cost.least_forward + cost.least_backward) + ends;
    const double way = placed.dense_before * (forth * pieces.least_forward + back * pieces.least_backward) +
                       placed.moe_before * (forth * cost.least_forward + back * cost.least_backward) +
                       placed.embedding_before * (forth * pieces.embedding.forward + back * pieces.embedding.backward());
    return n * all / mesh.pp + way + cluster.stack.step_seconds;
  }

  void cost_of(std::size_t b, std::size_t v, const std::uint8_t* wanted, const std::uint8_t* legal, PlanCost* out);
};

// All ZeRO stages and recomputation modes of one (micro-batch, variant); `wanted` by ZeRO index.
void BlockCost::Impl::cost_of(std::size_t b, std::size_t v, const std::uint8_t* wanted, const std::uint8_t* legal, PlanCost* out) {
  const std::size_t modes = axes.recompute.size(), stride = axes.variant.size(), zeros = axes.zero.size();
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
  t.embedding = &cost.pieces->embedding;
  t.head = &cost.pieces->head;
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
  kernel->run(t, results.data());

  for (std::size_t z = 0; z < zeros; ++z) {
    if (!wanted[z]) continue;
    const LaneResult& r = results[z];
    std::size_t index = axes.index(z, b, 0, v);
    for (std::size_t lane = 0; lane < modes; ++lane, index += stride) {
      if (!legal[index]) continue;
      if (r.reserved[lane] <= capacity)
        out[index] = {r.step[lane], r.memory[lane], r.reserved[lane], r.compute[lane], r.communication[lane], r.ramp[lane], r.host[lane]};
      else
        out[index] = {0, r.memory[lane], r.reserved[lane], 0, 0, 0, 0};
    }
  }
}

BlockCost::BlockCost(const Architecture& a, const Cluster& c, const InnerAxes& axes, std::int64_t batch, std::int64_t sequence, Precision precision,
                     Optimizer optimizer)
    : impl_(new Impl(a, c, axes, batch, sequence, precision, optimizer)) {}
BlockCost::~BlockCost() { delete impl_; }
BlockCost::BlockCost(BlockCost&& other) noexcept : impl_(other.impl_) { other.impl_ = nullptr; }

void BlockCost::select(const Plan& mesh) {
  Impl& i = *impl_;
  i.mesh = mesh;
  i.mesh.precision = i.precision;
  i.mesh.optimizer = i.optimizer;
  i.mesh.batch = i.batch;
  std::vector<ShardCost>& table = i.shards[{mesh.tp, mesh.cp, mesh.ep, mesh.etp}];
  if (table.empty()) table.resize(i.axes.micro_batch.size());
  i.table = &table;
  i.stage_jitter = relative_stage_jitter(i.setting, mesh.pp);
  i.coupling_growth = std::log2(1.0 + mesh.pp);
  i.variants.resize(i.axes.variant.size());
  for (VariantState& v : i.variants) v.ready = false;
  i.mesh_priced = false;
  i.mesh_costs.resize(i.axes.micro_batch.size());
  i.micro_batches.resize(i.axes.micro_batch.size());
  for (std::size_t b = 0; b < i.axes.micro_batch.size(); ++b) {
    const std::int64_t rank_batch = std::int64_t{1} * mesh.dp * i.axes.micro_batch[b];
    i.micro_batches[b] = i.batch % rank_batch == 0 ? i.batch / rank_batch : 0;
  }
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

double BlockCost::time_floor(const std::uint8_t* legal) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  double floor = std::numeric_limits<double>::infinity();
  for (std::size_t b = 0; b < x.micro_batch.size(); ++b) {
    if (i.micro_batches[b] == 0) continue;
    i.want(b, legal);
    for (std::size_t v = 0; v < x.variant.size(); ++v)
      if (i.wanted_any(v)) floor = std::min(floor, i.time_floor(b, v));
  }
  return floor;
}

std::uint64_t BlockCost::drop_slower(std::uint8_t* legal, double limit) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  std::uint64_t dropped = 0;
  for (std::size_t b = 0; b < x.micro_batch.size(); ++b) {
    if (i.micro_batches[b] == 0) continue;
    i.want(b, legal);
    for (std::size_t v = 0; v < x.variant.size(); ++v) {
      if (!i.wanted_any(v) || i.time_floor(b, v) <= limit) continue;
      for (std::size_t z = 0; z < x.zero.size(); ++z)
        for (std::size_t r = 0; r < x.recompute.size(); ++r) {
          std::uint8_t& plan = legal[x.index(z, b, r, v)];
          dropped += plan;
          plan = 0;
        }
    }
  }
  return dropped;
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
