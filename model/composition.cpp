#include "model/composition.hpp"

#include <algorithm>
#include <cmath>

#include "model/collectives.hpp"
#include "model/composition_forms.hpp"
#include "model/kernels.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr double kHalf = 2;               // bytes of a 16-bit number
constexpr double kNodeDevices = 8;        // unit in which the growth with machine size was measured

bool sharded(int zero) { return zero >= 2; }

// Newton-Schulz orthogonalisation: products of the smaller side.
double orthogonal_flops(const Stack& s, double parameters, double smaller_side) { return s.orthogonal_products * 2 * parameters * smaller_side; }

double smaller_side(const Architecture& a) { return double(a.hidden); }

void add_optimizer(const Setting& set, const Plan& plan, MeshCost& c) {
  const Architecture& a = *set.architecture;
  const Device& d = set.cluster->device;
  const Stack& s = set.cluster->stack;
  const double stream = streaming_rate(d);
  auto seconds = [&](double parameters, bool matrix, double side) {
    double t = parameters * s.optimizer_traffic_bytes / (s.cpu_optimizer ? s.host_memory_bandwidth : stream);
    if (matrix && plan.optimizer != Optimizer::adam)
      t += orthogonal_flops(s, parameters, side) / (d.peak_bf16 * d.gemm_ceiling);
    return t;
  };
  const double side = smaller_side(a);
  c.optimizer_dense_layer = seconds(c.dense_parameters, true, side);
  c.optimizer_moe_layer = seconds(c.moe_dense_parameters, true, side);
  c.optimizer_moe_expert = seconds(c.moe_expert_parameters, true, std::min(side, double(a.expert_ffn)));
  c.optimizer_embedding = seconds(c.embedding_parameters, false, side);
}

void add_traffic(const Setting& set, const Plan& plan, MeshCost& c) {
  const Fabric& f = set.cluster->fabric;
  const Stack& s = set.cluster->stack;
  const Group dense{double(plan.dp) * plan.cp, double(plan.tp)};
  const Group expert{double(plan.edp()), double(plan.ep) * plan.etp};
  auto seconds = [&](Group g, double bytes) { return ring_seconds(f, g, bytes, 0); };
  Traffic& t = c.traffic;
  t.dense_message = ring_seconds(f, dense, 0, 1);
  t.expert_message = c.moe_expert_parameters > 0 ? ring_seconds(f, expert, 0, 1) : 0;
  const double grad = s.gradient_bytes;
  t.gather_dense_layer = seconds(dense, kHalf * c.dense_parameters);
  t.reduce_dense_layer = seconds(dense, grad * c.dense_parameters);
  t.gather_embedding = seconds(dense, kHalf * c.embedding_parameters);
  t.reduce_embedding = seconds(dense, grad * c.embedding_parameters);
  const double expert_gather = seconds(expert, kHalf * c.moe_expert_parameters);
  const double expert_reduce = seconds(expert, grad * c.moe_expert_parameters);
  t.gather_moe_layer = seconds(dense, kHalf * c.moe_dense_parameters) + expert_gather;
  t.reduce_moe_layer = seconds(dense, grad * c.moe_dense_parameters) + expert_reduce;
  const double all = t.gather_moe_layer + t.reduce_moe_layer;
  t.expert_share_moe = all > 0 ? (expert_gather + expert_reduce) / all : 0;
}

}  // namespace

namespace {
Kinds kinds_of(const Seconds& s) {
  Kinds k{};
  for (Term t : {Term::gemm, Term::experts, Term::attention, Term::pointwise, Term::casts, Term::head, Term::recompute})
    k.compute += s[t];
  for (Term t : {Term::tensor_parallel, Term::context_parallel, Term::expert_exchange}) k.communication += s[t];
  k.host = s[Term::host];
  return k;
}

}  // namespace

Times<double> times_of(const Work& w) {
  const Kinds f = kinds_of(w.forward), b = kinds_of(w.input_gradient), g = kinds_of(w.weight_gradient);
  return {f.sum(), b.sum(), g.sum(), {f.compute + b.compute + g.compute, f.communication + b.communication + g.communication, f.host + b.host + g.host}};
}

Layout make_layout(const Architecture& a, const Stack& s, int pp, int v) {
  auto parts = spread_layers(a, s, std::int64_t{1} * pp * v);
  (a.is_moe() ? parts.back().moe : parts.back().dense) += a.mtp_layers;
  Layout out;
  for (const Part& p : parts) {
    if (!out.parts.empty()) {
      PartRun& r = out.parts.back();
      if (r.dense == double(p.dense) && r.moe == double(p.moe) && r.first == p.first && r.last == p.last) {
        ++r.count;
        continue;
      }
    }
    out.parts.push_back({1, double(p.dense), double(p.moe), p.first, p.last});
  }
  std::vector<DeviceRun> all(static_cast<std::size_t>(pp));
  for (int i = 0; i < pp; ++i) {
    all[i].stage = i;
    all[i].count = 1;
    for (int c = 0; c < v; ++c) {
      const Part& p = parts[static_cast<std::size_t>(c) * pp + i];
      all[i].dense += double(p.dense);
      all[i].moe += double(p.moe);
      all[i].first |= p.first;
      all[i].last |= p.last;
    }
  }
  auto merge = [](const std::vector<DeviceRun>& from) {
    std::vector<DeviceRun> to;
    for (const DeviceRun& d : from) {
      if (!to.empty() && to.back().dense == d.dense && to.back().moe == d.moe && to.back().first == d.first && to.back().last == d.last)
        ++to.back().count;
      else
        to.push_back(d);
    }
    return to;
  };
  out.devices = merge(all);
  out.chunks.resize(v > 1 ? out.devices.size() * out.parts.size() : 0);
  for (std::size_t r = 0; v > 1 && r < out.devices.size(); ++r) {
    std::size_t run = 0;
    for (int c = 0, end = out.parts[0].count; c < v; ++c) {
      const int part = c * pp + out.devices[r].stage;
      while (part >= end) end += out.parts[++run].count;
      ++out.chunks[r * out.parts.size() + run];
    }
  }
  if (pp > 1 && v == 1) {
    std::vector<DeviceRun> pairs;
    for (int i = 0; i < pp / 2; ++i) {
      DeviceRun d = all[i];
      const DeviceRun& o = all[pp - 1 - i];
      d.dense += o.dense;
      d.moe += o.moe;
      d.first |= o.first;
      d.last |= o.last;
      pairs.push_back(d);
    }
    out.pairs = merge(pairs);
  }
  return out;
}

void add_hops(const Setting& set, const Plan& plan, int micro_batch, MeshCost& c) {
  if (plan.pp <= 1) return;
  const Stack& s = set.cluster->stack;
  const double bytes = kHalf * split_tokens(set, {plan.tp, plan.cp, plan.ep, plan.etp, micro_batch}) * set.architecture->hidden;
  const double hop = hop_seconds(set.cluster->fabric, double(plan.devices()) / plan.pp, plan.pp, bytes);
  c.hop = s.p2p_exposed * hop + s.chunk_seconds;
  c.hop_interleaved = s.p2p_exposed_interleaved * hop + s.chunk_seconds;
}

void add_parameters(const Setting& set, const Plan& plan, MeshCost& c) {
  const Architecture& a = *set.architecture;
  const Shard shard{plan.tp, plan.cp, plan.ep, plan.etp, plan.micro_batch};
  const LayerParameters dense = layer_parameters(a, shard, false);
  c.dense_parameters = a.is_moe() && a.dense_ffn == 0 ? 0 : dense.dense;
  if (a.is_moe()) {
    const LayerParameters moe = layer_parameters(a, shard, true);
    c.moe_dense_parameters = moe.dense;
    c.moe_expert_parameters = moe.expert;
  }
  c.embedding_parameters = embedding_parameters(a, plan.tp);
}

MeshCost mesh_cost(const Setting& set, const Plan& plan) {
  const Fabric& f = set.cluster->fabric;
  const Stack& s = set.cluster->stack;
  MeshCost c;
  add_parameters(set, plan, c);
  const double data = double(plan.dp) * plan.cp;
  c.dense_shards = s.zero_inside_node ? std::min(data, std::max(1.0, ranks_in_domain(f, {data, double(plan.tp)}))) : data;
  c.expert_shards = plan.edp();
  add_traffic(set, plan, c);
  add_optimizer(set, plan, c);
  add_hops(set, plan, plan.micro_batch, c);
  if (s.rank_broadcast && double(plan.devices()) > kNodeDevices && !s.zero_inside_node) c.broadcast = s.broadcast_seconds * data;
  c.jitter = machine_jitter(set, double(plan.devices()));
  return c;
}

double machine_jitter(const Setting& set, double devices) {
  const Stack& s = set.cluster->stack;
  const double nodes = std::max(1.0, devices / kNodeDevices);
  return (s.node_jitter + (set.precision != Precision::bf16 ? s.node_jitter_low_precision : 0)) * std::log2(nodes);
}

double relative_stage_jitter(const Setting& set, int pp) {
  return set.architecture->is_moe() && pp > 1 ? set.cluster->stack.stage_jitter * std::log2(double(pp)) : 0;
}

void compose_pipeline(const Setting& set, const Layout& layout, const PartTimes<double>& work, const MeshCost& mesh, int pp,
                      const Variant& variant, std::int64_t n, int zero, double coupling, StepParts& out) {
  const PipelineShape shape{&layout, &mesh, &set.cluster->stack, variant.schedule, pp, variant.virtual_stages, n,
                            relative_stage_jitter(set, pp)};
  const PipelineOf<double> p = pipeline_of<double>(shape, work, zero, coupling);
  out.makespan = p.makespan;
  out.slowest = p.slowest.kinds;
  out.point_to_point = p.slowest.point_to_point;
  out.sharding = p.slowest.sharding;
  out.ramp = p.ramp;
  out.slowest_run = static_cast<int>(p.slowest.run);
  out.mirror_run = static_cast<int>(p.slowest.other);
  out.jitter = p.jitter;
}

double optimizer_seconds(const Layout& layout, const MeshCost& mesh, int zero) {
  double optimizer = 0;
  const double dense_shards = zero >= 1 ? mesh.dense_shards : 1, expert_shards = zero >= 1 ? mesh.expert_shards : 1;
  for (const DeviceRun& d : layout.devices) {
    const double ends = (d.first ? 1 : 0) + (d.last ? 1 : 0);
    optimizer = std::max(optimizer, (d.dense * mesh.optimizer_dense_layer + d.moe * mesh.optimizer_moe_layer +
                                     ends * mesh.optimizer_embedding) / dense_shards +
                                        d.moe * mesh.optimizer_moe_expert / expert_shards);
  }
  return optimizer;
}

void compose_step(const Setting& set, const Layout& layout, const PartTimes<double>& work, const MeshCost& mesh, int zero, StepParts& out) {
  const Stack& s = set.cluster->stack;
  const double exposed = sharded(zero) ? 0 : exposed_traffic<double>(s, layout, mesh.traffic, work, zero);
  out.data_parallel = exposed + (zero >= 1 ? mesh.broadcast : 0);
  out.optimizer = optimizer_seconds(layout, mesh, zero);
  out.fixed = s.step_seconds;
  out.jitter += (out.makespan + out.jitter + out.data_parallel + out.optimizer + out.fixed) * mesh.jitter;
}

PartMemory part_memory(const Setting& set, const Shard& shard, unsigned modules) {
  PartMemory m = dense_memory(set, shard, modules);
  if (set.architecture->is_moe()) m.moe = layer_memory(set, shard, true, modules);
  return m;
}

PartMemory dense_memory(const Setting& set, const Shard& shard, unsigned modules) {
  const Architecture& a = *set.architecture;
  PartMemory m;
  if (!a.is_moe() || a.dense_ffn > 0) m.dense = layer_memory(set, shard, false, modules);
  m.embedding_parameters = embedding_parameters(a, shard.tp);
  m.head = head_memory(set, shard);
  m.embedding = embedding_memory(set, shard);
  m.layer_input = kHalf * split_tokens(set, shard) * a.hidden;
  return m;
}

StateBytes state_bytes(const Setting& set, const DeviceRun& d, const PartMemory& m, const Plan& p) {
  const Architecture& a = *set.architecture;
  const Stack& s = set.cluster->stack;
  const double halves = held_share(p.schedule);
  double ends = (d.first ? 1 : 0) + (d.last ? 1 : 0);
  if (p.pp == 1 && a.tied) ends = 1;
  const double dense = d.dense * m.dense.parameters.dense + d.moe * m.moe.parameters.dense + ends * m.embedding_parameters +
                       (d.last ? double(a.hidden) : 0);
  const double expert = d.moe * m.moe.parameters.expert;
  const double dense_group = double(p.dp) * p.cp, expert_group = p.edp();
  const double whole = dense + expert, share = dense / dense_group + expert / expert_group;
  const double optimizer_shard =
      s.zero_inside_node ? std::max(share, whole / std::min(double(set.cluster->fabric.node_devices), dense_group)) : share;
  StateBytes out;
  constexpr double kFp32 = 4, kGathered = 2;  // current and prefetched layer
  out.weights = kHalf * (p.zero >= 3 ? share : whole);
  if (p.zero >= 3) {
    const double largest = std::max(d.dense > 0 ? m.dense.parameters.total() : 0, d.moe > 0 ? m.moe.parameters.total() : 0);
    if (s.fp32_weights) out.weights = kFp32 * share;
    out.weights += kGathered * kHalf * largest;
    if (s.ends_gathered) out.weights += kHalf * ends * m.embedding_parameters;
  }
  out.gradients = p.zero >= 2 ? s.sharded_gradient_bytes * share : s.main_gradient_bytes * whole;
  if (p.zero >= 3 && s.ends_gathered) {
    const double largest = std::max(d.dense > 0 ? m.dense.parameters.total() : 0, d.moe > 0 ? m.moe.parameters.total() : 0);
    out.gradients += kHalf * m.embedding_parameters + kGathered * kHalf * largest;
  }
  double states = s.optimizer_bytes - (p.optimizer == Optimizer::adam ? 0 : kFp32);  // one moment less without Adam
  if (s.fp32_weights && p.zero >= 3) states -= kFp32;       // the weights are the master copy
  out.optimizer = s.cpu_optimizer ? 0 : states * halves * (p.zero >= 1 ? optimizer_shard : whole);
  if (s.wgrad_fusion && s.wgrad_buffers_kept) {
    out.buffers = (d.dense > 0 ? m.dense.buffers : 0) + (d.moe > 0 ? m.moe.buffers : 0);
    // Attention shapes are shared by dense and MoE layers.
    if (d.dense > 0 && d.moe > 0) out.buffers -= m.dense.attention_buffers;
  }
  return out;
}

namespace {

// Layers and ends of a device that holds the mean of the model: what its heaviest device holds at least.
DeviceRun mean_device(const Architecture& a, int pp) {
  DeviceRun d;
  const double moe = double(a.moe_layer_count() + (a.is_moe() ? a.mtp_layers : 0));
  d.moe = moe / pp;
  d.dense = (double(a.layers + a.mtp_layers) - moe) / pp;
  return d;
}

}  // namespace

double least_states(const Setting& set, const Plan& p, const MeshCost& c) {
  const DeviceRun mean = mean_device(*set.architecture, p.pp);
  const Stack& s = set.cluster->stack;
  const double ends = p.pp == 1 && set.architecture->tied ? 1 : 2;
  const double dense = mean.dense * c.dense_parameters + mean.moe * c.moe_dense_parameters + ends / p.pp * c.embedding_parameters;
  const double expert = mean.moe * c.moe_expert_parameters;
  const double whole = dense + expert, share = dense / (double(p.dp) * p.cp) + expert / p.edp();
  constexpr double kFp32 = 4;
  const double weights = kHalf * (p.zero >= 3 ? share : whole);
  const double gradients = p.zero >= 2 ? s.sharded_gradient_bytes * share : s.main_gradient_bytes * whole;
  const double states = s.optimizer_bytes - (p.optimizer == Optimizer::adam ? 0 : kFp32) - (s.fp32_weights && p.zero >= 3 ? kFp32 : 0);
  const double optimizer = s.cpu_optimizer ? 0 : states * (p.zero >= 1 ? share : whole);
  return fragmentation_of(s, p.tp, 0) * (weights + gradients + optimizer + s.memory_constant) + s.context_bytes + s.buffer_bytes;
}

namespace {

// Of exposed_traffic() what no time of a layer can hide.
double least_traffic(const Stack& s, const DeviceRun& mean, const Traffic& t, const Plan& p) {
  const double ends = 2.0 / p.pp, messages = s.dp_buckets * t.dense_message;
  const double gather = mean.dense * t.gather_dense_layer + mean.moe * t.gather_moe_layer + ends * t.gather_embedding + messages;
  const double reduce = mean.dense * t.reduce_dense_layer + mean.moe * t.reduce_moe_layer + ends * t.reduce_embedding + messages;
  const double traffic = reduce + (p.zero == 0 ? reduce : gather);
  if (!s.dp_overlap) return traffic;
  if (t.gather_moe_layer > t.reduce_moe_layer) return std::min(s.dp_exposed, s.expert_dp_exposed) * traffic;
  const double expert = mean.moe * t.expert_share_moe * (t.gather_moe_layer + t.reduce_moe_layer);
  return s.dp_exposed * (traffic - expert) + s.expert_dp_exposed * expert;
}

}  // namespace

BlockFloor block_floor(const Setting& set, const Plan& p, const MeshCost& c) {
  const DeviceRun mean = mean_device(*set.architecture, p.pp);
  BlockFloor out;
  const Stack& s = set.cluster->stack;
  const Traffic& t = c.traffic;
  if (sharded(p.zero)) {  // of sharding_of() what no time of a part can hide
    const double gathers = p.zero == 3 ? 2 : 1;
    auto shard = [&](double gather, double reduce, double message) {
      return s.fsdp_contention * (gathers * (gather + message) + reduce + message);
    };
    out.shard_dense = shard(t.gather_dense_layer, t.reduce_dense_layer, t.dense_message);
    out.shard_moe = shard(t.gather_moe_layer, t.reduce_moe_layer, t.dense_message + t.expert_message);
    out.shard_end = shard(t.gather_embedding, t.reduce_embedding, 0);
  } else {
    out.once = least_traffic(s, mean, t, p);
  }
  out.once += (mean.dense * c.optimizer_dense_layer + mean.moe * c.optimizer_moe_layer + 2.0 / p.pp * c.optimizer_embedding) /
                  (p.zero >= 1 ? c.dense_shards : 1) +
              mean.moe * c.optimizer_moe_expert / (p.zero >= 1 ? c.expert_shards : 1) + (p.zero >= 1 ? c.broadcast : 0);
  return out;
}

Flight flight(const Plan& p, std::int64_t n, int stage) {
  Flight f;
  f.held = in_flight(p.schedule, p.pp, p.virtual_stages, n, stage);
  if (p.schedule == Schedule::zb_h1 && p.pp > 1) f.deferred = std::max(0.0, double(std::min<std::int64_t>(p.pp, n)) - f.held);
  return f;
}

PassingBytes passing_bytes(const Setting& set, const DeviceRun& d, int stage, const PartMemory& m, const Plan& p, std::int64_t n) {
  const Stack& s = set.cluster->stack;
  const Flight f = flight(p, n, stage);
  auto of = [](const LayerMemory& l) { return SavedOf<double>{l.saved, std::min(l.weight_inputs, l.saved), l.backward}; };
  const auto passing = passing_of<double>(s, d, of(m.dense), of(m.moe), m, held_share(p.schedule), f.held, f.deferred);
  PassingBytes out;
  out.in_flight = f.held;
  out.activations = passing.activations;
  out.working_set = passing.working_set;
  out.point_to_point = p.pp > 1 ? 2 * m.layer_input : 0;
  out.constant = s.memory_constant;
  return out;
}

StageMemory stage_memory(const Setting& set, const DeviceRun& d, int stage, const PartMemory& m, const Plan& p) {
  const StateBytes state = state_bytes(set, d, m, p);
  const PassingBytes passing = passing_bytes(set, d, stage, m, p, p.micro_batches());
  StageMemory out;
  out.layers = d.dense + d.moe;
  out.weights = state.weights;
  out.gradients = state.gradients;
  out.optimizer = state.optimizer;
  out.wgrad_buffers = state.buffers;
  out.activations = passing.activations;
  out.working_set = passing.working_set;
  out.point_to_point = passing.point_to_point;
  out.constant = passing.constant;
  out.in_flight = passing.in_flight;
  return out;
}

double fragmentation_of(const Stack& s, int tp, double local_tokens) {
  const double factor = tp >= 2 ? s.fragmentation_tp : s.fragmentation;
  return local_tokens >= s.long_context_tokens ? std::max(factor, s.fragmentation_long) : factor;
}

double reserve_bytes(const Cluster& c, const Plan& p, double allocated, double passing, double local_tokens) {
  const Stack& s = c.stack;
  return fragmentation_of(s, p.tp, local_tokens) * allocated + s.activation_fragmentation * passing + s.context_bytes + s.buffer_bytes;
}

}  // namespace tessera
