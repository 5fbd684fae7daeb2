// The batched path: what depends on few digits of a plan is computed once and kept, the rest is composed per plan. The
// formulas are those of composition.cpp, which the scalar reference uses too.
#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <vector>

#include "model/composition.hpp"
#include "model/recompute.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {
namespace {

// Keys of the tables: degrees are at most 2^20, indices of micro-batches at most 2^10.
std::uint64_t shard_key(std::size_t micro_batch, int tp, int cp) {
  return (std::uint64_t(micro_batch) << 42) | (std::uint64_t(tp) << 21) | std::uint64_t(cp);
}

// Pieces that depend on tp, cp and the micro-batch only.
struct DensePieces {
  Piece attention, dense_ffn;
  WorkKinds embedding, head;
};

// One (shard, recomputation): work of the layer kinds, plain and with the exchange overlapped (DualPipe), and memory.
struct ShardCost {
  PartWork plain, overlapped;
  double coupled_idle = 0;  // coupling per log2(1+pp)
  Work moe;                 // for the coupling of stages
  PartMemory memory;
};

// All micro-batches and recomputations of one (tp, cp, ep, etp).
struct ShardTable {
  std::vector<ShardCost> entries;     // micro_batch-major
  std::vector<std::uint8_t> ready;
};

struct ShardId {
  int tp, cp, ep, etp;
  bool operator==(const ShardId&) const = default;
};
struct ShardHash {
  std::size_t operator()(const ShardId& s) const {
    std::uint64_t h = std::uint64_t(s.tp) * 0x9E3779B97F4A7C15ull;
    h = (h ^ std::uint64_t(s.cp)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ std::uint64_t(s.ep)) * 0x94D049BB133111EBull;
    return std::size_t((h ^ std::uint64_t(s.etp)) * 0x9E3779B97F4A7C15ull);
  }
};

struct Peak {
  double allocated = 0, passing = 0;
};

// Places at which the peak of a layout can lie: both ends of every run of equal devices.
struct Place {
  std::size_t run;
  int stage;
};
struct Placed {
  Layout layout;
  std::vector<Place> devices, pairs;
};

std::vector<Place> places_of(const std::vector<DeviceRun>& runs) {
  std::vector<Place> out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out.push_back({i, runs[i].stage});
    if (runs[i].count > 1) out.push_back({i, runs[i].stage + runs[i].count - 1});
  }
  return out;
}

// What a variant (schedule and virtual stages) needs in the selected block, made when it is first asked for.
struct VariantState {
  bool ready = false;
  const Placed* placed = nullptr;
  const std::vector<DeviceRun>* runs = nullptr;
  const std::vector<Place>* places = nullptr;
  std::vector<double> states;   // bytes of parameters by (zero, place)
  std::vector<Peak> passing;    // of the current micro-batch and recomputation, by place
};

}  // namespace

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

  std::unordered_map<std::uint64_t, DensePieces> dense_pieces;
  std::unordered_map<ShardId, ShardTable, ShardHash> shards;
  std::unordered_map<std::uint64_t, Placed> layouts;

  // The selected block.
  Plan mesh;
  ShardTable* table = nullptr;
  std::vector<MeshCost> mesh_costs;          // per micro-batch
  std::vector<std::int64_t> micro_batches;   // n_mb per micro-batch, 0: does not divide
  std::vector<VariantState> variants;

  Impl(const Architecture& a, const Cluster& c, const InnerAxes& x, std::int64_t b, std::int64_t s, Precision p, Optimizer o)
      : architecture(a), cluster(c), axes(x), batch(b), sequence(s), precision(p), optimizer(o),
        setting{&architecture, &cluster, s, p}, has_dense(!a.is_moe() || a.dense_ffn > 0),
        any_dualpipe(std::any_of(x.variant.begin(), x.variant.end(), [](const Variant& v) { return v.schedule == Schedule::dualpipe; })),
        capacity(c.memory_cap > 0 ? c.memory_cap : c.device.capacity) {
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
    DensePieces p;
    const Shard s = shard(b);
    p.attention = attention_piece(setting, s);
    if (has_dense) p.dense_ffn = dense_ffn_piece(setting, s);
    p.embedding = kinds_of(embedding_work(setting, s));
    p.head = kinds_of(head_work(setting, s));
    return dense_pieces.emplace(key, std::move(p)).first->second;
  }

  void fill(std::size_t b) {
    const Shard s = shard(b);
    const DensePieces& p = pieces(b);
    Piece experts;
    if (architecture.is_moe()) experts = expert_piece(setting, s);
    for (std::size_t r = 0; r < axes.recompute.size(); ++r) {
      ShardCost& c = table->entries[b * axes.recompute.size() + r];
      const unsigned modules = recompute_modules(axes.recompute[r]);
      auto part = [&](bool overlapped) {
        PartWork w;
        if (has_dense) w.dense = kinds_of(layer_work(setting, p.attention, p.dense_ffn, false, modules, overlapped));
        if (architecture.is_moe()) {
          const Work moe = layer_work(setting, p.attention, experts, true, modules, overlapped);
          w.moe = kinds_of(moe);
          if (!overlapped) c.moe = moe;
        }
        w.embedding = p.embedding;
        w.head = p.head;
        w.mtp_heads = double(architecture.mtp_layers);
        return w;
      };
      c.plain = part(false);
      c.overlapped = any_dualpipe ? part(true) : c.plain;
      c.memory = part_memory(setting, s, modules);
    }
    table->ready[b] = 1;
  }

  const Placed& layout(int pp, int v) {
    const std::uint64_t key = (std::uint64_t(pp) << 32) | std::uint64_t(v);
    const auto at = layouts.find(key);
    if (at != layouts.end()) return at->second;
    Placed p;
    p.layout = make_layout(architecture, cluster.stack, pp, v);
    p.devices = places_of(p.layout.devices);
    p.pairs = places_of(p.layout.pairs);
    return layouts.emplace(key, std::move(p)).first->second;
  }

  const ShardCost& entry(std::size_t b, std::size_t r) {
    if (!table->ready[b]) fill(b);
    return table->entries[b * axes.recompute.size() + r];
  }

  double reserved(const Peak& peak, std::size_t b) const {
    return reserve_bytes(cluster, mesh, peak.allocated, peak.passing, double(axes.micro_batch[b]) * double(sequence) / mesh.cp);
  }

  Plan plan(std::size_t z, std::size_t b, std::size_t r, std::size_t v) const {
    Plan p = mesh;
    p.zero = axes.zero[z];
    p.micro_batch = axes.micro_batch[b];
    p.recompute = axes.recompute[r];
    p.schedule = axes.variant[v].schedule;
    p.virtual_stages = axes.variant[v].virtual_stages;
    p.precision = precision;
    p.optimizer = optimizer;
    p.batch = batch;
    return p;
  }

  VariantState& variant(std::size_t v, const ShardCost& any) {
    VariantState& state = variants[v];
    if (state.ready) return state;
    const Variant& x = axes.variant[v];
    const bool dual = x.schedule == Schedule::dualpipe && mesh.pp > 1;
    state.placed = &layout(mesh.pp, x.virtual_stages);
    state.runs = dual ? &state.placed->layout.pairs : &state.placed->layout.devices;
    state.places = dual ? &state.placed->pairs : &state.placed->devices;
    const std::size_t places = state.places->size();
    state.passing.resize(places);
    state.states.resize(axes.zero.size() * places);
    for (std::size_t z = 0; z < axes.zero.size(); ++z) {
      const Plan p = plan(z, 0, 0, v);  // parameters do not depend on micro-batch and recomputation
      for (std::size_t k = 0; k < places; ++k)
        state.states[z * places + k] = state_bytes(setting, (*state.runs)[(*state.places)[k].run], any.memory, p).sum();
    }
    state.ready = true;
    return state;
  }

  // Activations and working set at every place, for one micro-batch and recomputation.
  void fill_passing(VariantState& state, const Plan& p, const ShardCost& cost, std::int64_t n) {
    for (std::size_t k = 0; k < state.places->size(); ++k) {
      const Place& place = (*state.places)[k];
      const PassingBytes passing = passing_bytes(setting, (*state.runs)[place.run], place.stage, cost.memory, p, n);
      state.passing[k] = {passing.sum(), passing.activations + passing.working_set};
    }
  }

  Peak peak(const VariantState& state, std::size_t z) const {
    const std::size_t places = state.places->size();
    Peak most;
    for (std::size_t k = 0; k < places; ++k) {
      const double allocated = state.states[z * places + k] + state.passing[k].allocated;
      if (allocated > most.allocated) most = {allocated, state.passing[k].passing};
    }
    return most;
  }

  // All ZeRO stages of one (micro-batch, recomputation, variant).
  void cost_of(std::size_t b, std::size_t r, std::size_t v, const std::uint8_t* legal, PlanCost* out);
};

void BlockCost::Impl::cost_of(std::size_t b, std::size_t r, std::size_t v, const std::uint8_t* legal, PlanCost* out) {
  const std::int64_t n = micro_batches[b];
  const ShardCost* cost = nullptr;
  VariantState* state = nullptr;
  StepParts parts;
  int piped = -1;  // ZeRO 0 and 1 share the pipeline; 2 and 3 add their traffic to the parts
  for (std::size_t z = 0; z < axes.zero.size(); ++z) {
    const std::size_t index = axes.index(z, b, r, v);
    if (!legal[index]) continue;
    if (!cost) {
      cost = &entry(b, r);
      state = &variant(v, *cost);
      fill_passing(*state, plan(z, b, r, v), *cost, n);
    }
    const Peak memory = peak(*state, z);
    PlanCost& result = out[index];
    result = {0, memory.allocated, reserved(memory, b), 0, 0, 0, 0};
    if (!(result.memory_with_reserve_bytes <= capacity)) continue;
    const PartWork& work = axes.variant[v].schedule == Schedule::dualpipe ? cost->overlapped : cost->plain;
    const int kind = std::max(1, axes.zero[z]);
    if (piped != kind) {
      const double coupling = architecture.is_moe() ? stage_coupling(setting, shard(b), mesh.pp, cost->moe) : 0;
      parts = StepParts{};
      compose_pipeline(setting, state->placed->layout, work, mesh_costs[b], mesh.pp, axes.variant[v], n, kind, coupling, parts);
      piped = kind;
    }
    StepParts step = parts;
    compose_step(setting, state->placed->layout, work, mesh_costs[b], mesh, axes.zero[z], step);
    result.step_seconds = step.total();
    result.compute_seconds = double(n) * step.slowest.compute + step.optimizer;
    result.communication_seconds = double(n) * step.slowest.communication + step.data_parallel;
    result.ramp_seconds = step.ramp;
    result.host_seconds = double(n) * step.slowest.host + step.fixed + step.jitter;
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
  ShardTable& table = i.shards[{mesh.tp, mesh.cp, mesh.ep, mesh.etp}];
  if (table.entries.empty()) {
    table.entries.resize(i.axes.micro_batch.size() * i.axes.recompute.size());
    table.ready.assign(i.axes.micro_batch.size(), 0);
  }
  i.table = &table;
  i.variants.resize(i.axes.variant.size());
  for (VariantState& v : i.variants) v.ready = false;
  i.mesh_costs.resize(i.axes.micro_batch.size());
  i.micro_batches.resize(i.axes.micro_batch.size());
  for (std::size_t b = 0; b < i.axes.micro_batch.size(); ++b) {
    const std::int64_t rank_batch = std::int64_t{1} * mesh.dp * i.axes.micro_batch[b];
    i.micro_batches[b] = i.batch % rank_batch == 0 ? i.batch / rank_batch : 0;
    Plan p = i.mesh;
    p.micro_batch = i.axes.micro_batch[b];
    if (i.micro_batches[b] > 0) i.mesh_costs[b] = mesh_cost(i.setting, p);
  }
}

double BlockCost::memory_floor(std::size_t z, const std::uint8_t* legal) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  // Memory falls with the micro-batch and along recomputation none -> full; no variant needs less than the least of them.
  double floor = std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < x.variant.size(); ++v) {
    bool found = false;
    for (std::size_t b : i.rising_batches)
      for (std::size_t r : i.falling_memory) {
        if (found) break;
        if (!legal[x.index(z, b, r, v)] || i.micro_batches[b] == 0) continue;
        const ShardCost& cost = i.entry(b, r);
        VariantState& state = i.variant(v, cost);
        i.fill_passing(state, i.plan(z, b, r, v), cost, i.micro_batches[b]);
        floor = std::min(floor, i.reserved(i.peak(state, z), b));
        found = true;
      }
  }
  return floor;
}

void BlockCost::cost(const std::uint8_t* legal, PlanCost* out) const {
  Impl& i = *impl_;
  const InnerAxes& x = i.axes;
  for (std::size_t b = 0; b < x.micro_batch.size(); ++b) {
    if (i.micro_batches[b] == 0) continue;
    for (std::size_t r = 0; r < x.recompute.size(); ++r)
      for (std::size_t v = 0; v < x.variant.size(); ++v) i.cost_of(b, r, v, legal, out);
  }
}

}  // namespace tessera
