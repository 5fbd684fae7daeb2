// From pieces to a step: the formulas shared by the scalar reference (step_cost.cpp) and the batched path
// (block_cost.cpp). Everything is linear in the layers of a part, so a model's parts are kept as runs of equal ones and
// nothing grows with the number of layers or stages.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "model/layer_memory.hpp"
#include "model/stage_layout.hpp"
#include "tessera/pipeline.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {

/// A run of equal neighbouring parts in path order.
struct PartRun {
  int count = 0;
  double dense = 0, moe = 0;
  bool first = false, last = false;
};

/// A run of neighbouring devices (stages) that hold the same layers. DualPipe: both stages of a device, its layers
/// added up.
struct DeviceRun {
  int stage = 0, count = 0;  ///< first stage of the run, length
  double dense = 0, moe = 0;
  bool first = false, last = false;
};

/// The layout of one (pp, v).
struct Layout {
  std::vector<PartRun> parts;      ///< pp*v parts
  std::vector<DeviceRun> devices;  ///< pp devices
  std::vector<DeviceRun> pairs;    ///< DualPipe: device i holds stages i and pp-1-i; i < pp/2
  std::vector<double> chunks;      ///< interleaved: [device run][part run] chunks of a device that lie in the part run
};
/// Precondition: can_spread(). MTP modules count as MoE (or dense) layers of the last part.
Layout make_layout(const Architecture&, const Stack&, int pp, int virtual_stages);

/// Seconds in three kinds, of a number of plans (Real: model/lanes.hpp).
template <class Real>
struct KindsOf {
  Real compute, communication, host;
  Real sum() const { return compute + communication + host; }
};
using Kinds = KindsOf<double>;

/// Seconds of a layer or of an end of the model per micro-batch: by operation, and by kind over all three operations.
template <class Real>
struct Times {
  Real forward, input_gradient, weight_gradient;
  KindsOf<Real> kinds;
  Real backward() const { return input_gradient + weight_gradient; }
};
Times<double> times_of(const Work&);

/// Times of what a part is made of, for one (shard, recomputation, schedule).
template <class Real>
struct PartTimes {
  Times<Real> dense, moe;
  const Times<double>*embedding, *head;  ///< the same for every plan
  double mtp_heads;                      ///< further heads on the last part
};

/// Parameter traffic of sharded data parallelism, seconds per layer or matrix: gather of 16-bit weights and reduction
/// of gradients over the data-parallel group (dense) and the expert-data-parallel group.
struct Traffic {
  double gather_dense_layer = 0, gather_moe_layer = 0, gather_embedding = 0;
  double reduce_dense_layer = 0, reduce_moe_layer = 0, reduce_embedding = 0;
  double expert_share_moe = 0;  ///< share of a MoE layer's traffic that belongs to experts
  double dense_message = 0, expert_message = 0;  ///< latency of one collective [s]
};

/// What depends on the mesh and the shard, not on recomputation or schedule.
struct MeshCost {
  Traffic traffic;
  double hop = 0;               ///< exposed point-to-point seconds of a part boundary, one direction, 1F1B
  double hop_interleaved = 0;
  double dense_parameters = 0, moe_dense_parameters = 0, moe_expert_parameters = 0, embedding_parameters = 0;
  double optimizer_dense_layer = 0, optimizer_moe_layer = 0, optimizer_embedding = 0;  ///< seconds, unsharded
  double optimizer_moe_expert = 0;
  double dense_shards = 1, expert_shards = 1;
  double broadcast = 0;         ///< rank-by-rank broadcast of updated weights [s]
  double jitter = 0;            ///< relative slowdown of the step
};
/// `plan` gives the mesh (tp cp pp dp ep etp), micro_batch and optimizer.
MeshCost mesh_cost(const Setting&, const Plan& plan);
/// Sets the parameters on a rank alone.
void add_parameters(const Setting&, const Plan& plan, MeshCost&);
/// Sets the hops, which of a MeshCost alone depend on the micro-batch.
void add_hops(const Setting&, const Plan& mesh, int micro_batch, MeshCost&);

/// Relative slowdown of a step by devices that wait for each other over the machine; jitter of a MeshCost.
double machine_jitter(const Setting&, double devices);

/// Times of a step.
struct StepParts {
  double makespan = 0;        ///< pipeline
  Kinds slowest{};            ///< work of the slowest device per micro-batch
  double point_to_point = 0;  ///< of it, exposed hops (in communication)
  double sharding = 0;        ///< of it, exposed sharded-parameter traffic (in communication)
  double ramp = 0;            ///< makespan - n * slowest, never below 0
  int slowest_run = 0;        ///< index into layout parts; interleaved: into its devices
  int mirror_run = 0;         ///< DualPipe: index into layout parts of the device's other stage
  double data_parallel = 0, optimizer = 0, fixed = 0, jitter = 0;
  double total() const { return makespan + data_parallel + optimizer + fixed + jitter; }
};
/// Pipeline of one schedule; zero 2 and 3 add their per-micro-batch traffic to the parts. `coupling`: further seconds of
/// every part per micro-batch.
void compose_pipeline(const Setting&, const Layout&, const PartTimes<double>&, const MeshCost&, int pp, const Variant&,
                      std::int64_t micro_batches, int zero, double coupling, StepParts& out);
/// Data-parallel traffic left exposed, optimizer and fixed time, on the slowest device; jitter over all.
void compose_step(const Setting&, const Layout&, const PartTimes<double>&, const MeshCost&, int zero, StepParts& out);
/// Relative slowdown of a step of a MoE pipeline by devices that wait for each other.
double relative_stage_jitter(const Setting&, int pp);
/// The optimizer's update on the slowest device [s].
double optimizer_seconds(const Layout&, const MeshCost&, int zero);

/// Memory of the layer kinds and ends for one (shard, recomputation).
struct PartMemory {
  LayerMemory dense, moe;
  double embedding_parameters = 0, head = 0, embedding = 0, layer_input = 0;
};
PartMemory part_memory(const Setting&, const Shard&, unsigned modules);
/// The same without MoE layers: depends on tp, cp and micro-batch alone.
PartMemory dense_memory(const Setting&, const Shard&, unsigned modules);

/// Bytes of parameters on a device: weights, gradients, optimizer, buffers. Depends on zero and the schedule's kind of
/// placement, not on micro-batch or recomputation.
struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0, buffers = 0;
  double sum() const { return weights + gradients + optimizer + buffers; }
};
StateBytes state_bytes(const Setting&, const DeviceRun&, const PartMemory&, const Plan&);

// Bounds of all plans on the mesh and ZeRO stage of `plan`: what a device that holds the mean of the model needs. A schedule's
// heaviest device holds at least that, and everything here is linear in what it holds.

/// Memory with reserve of the states [B]. Of the MeshCost only add_parameters() is needed.
double least_states(const Setting&, const Plan& plan, const MeshCost&);
struct BlockFloor {
  double once = 0;    ///< optimizer and exposed data-parallel traffic that no compute can hide [s]
  double shard_dense = 0, shard_moe = 0, shard_end = 0;  ///< ZeRO 2 and 3: the same of a layer or end and micro-batch [s]
};
BlockFloor block_floor(const Setting&, const Plan& plan, const MeshCost&);

/// Share of a stage on each of the devices that hold it: a DualPipe device holds two stages, each on two devices.
inline double held_share(Schedule schedule) { return schedule == Schedule::dualpipe ? 0.5 : 1; }

/// Micro-batches held whole at the peak, and further ones of which only what the weight gradients need is held.
struct Flight {
  double held = 0, deferred = 0;
};
Flight flight(const Plan&, std::int64_t micro_batches, int stage);

/// Bytes of activations, working set, hop buffers and the constant, at stage `stage` of the run.
struct PassingBytes {
  double activations = 0, working_set = 0, point_to_point = 0, constant = 0, in_flight = 0;
  double sum() const { return activations + working_set + point_to_point + constant; }
};
PassingBytes passing_bytes(const Setting&, const DeviceRun&, int stage, const PartMemory&, const Plan&, std::int64_t micro_batches);

/// Memory of one device run at its stage `stage`.
StageMemory stage_memory(const Setting&, const DeviceRun&, int stage, const PartMemory&, const Plan&);
/// Reserved over allocated bytes of the stack's allocator.
double fragmentation_of(const Stack&, int tp, double local_tokens);
/// What a plan reserves for `allocated` bytes, of which `passing` are activations and working set: fragmentation, context,
/// buffers outside the allocator.
double reserve_bytes(const Cluster&, const Plan&, double allocated, double passing, double local_tokens);

}  // namespace tessera
