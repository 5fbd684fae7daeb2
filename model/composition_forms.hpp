// From times and bytes of layers to those of a step: formulas of cost-model.md as templates on Real (model/lanes.hpp),
// for the scalar reference and the batched path alike.
#pragma once
#include <array>
#include <cstddef>

#include "model/composition.hpp"
#include "model/pipeline_forms.hpp"

namespace tessera {
namespace {

/// Pipeline of a step; slowest_run, point_to_point and sharding are of the slowest device.
template <class Real>
struct PipelineOf {
  Real makespan, ramp, jitter, point_to_point, sharding, slowest_run;
  KindsOf<Real> slowest;
};

/// Shape of a pipeline: what is the same in every lane.
struct PipelineShape {
  const Layout* layout;
  const MeshCost* mesh;
  const Stack* stack;
  Schedule schedule;
  int pp, virtual_stages;
  std::int64_t micro_batches;
  double stage_jitter;  ///< relative
};

/// Exposed traffic of sharded parameters, forward and backward. Reduction relative to the gather: gradients in fp32
/// or 16 bits.
template <class Real>
void sharding_of(const Stack& s, const Traffic& t, const PartRun& p, int zero, Real forward, Real backward, Real& add_forward,
                 Real& add_backward) {
  const double ends = (p.first ? 1 : 0) + (p.last ? 1 : 0), regather = zero == 3 ? 1 : 0;
  // One message per layer, direction and group.
  const double messages = (p.dense + p.moe) * t.dense_message + p.moe * t.expert_message;
  const double gather = p.dense * t.gather_dense_layer + p.moe * t.gather_moe_layer + ends * t.gather_embedding + messages;
  const double reduce = p.dense * t.reduce_dense_layer + p.moe * t.reduce_moe_layer + ends * t.reduce_embedding + messages;
  const double back = reduce + regather * gather;
  add_forward = top(Real(0), gather - forward) + s.fsdp_contention * gather;
  add_backward = top(Real(0), back - backward) + s.fsdp_contention * back;
}

/// Zero 2 and 3 add their per-micro-batch traffic to the parts. `coupling`: further seconds of every part per micro-batch.
template <class Real>
PipelineOf<Real> pipeline_of(const PipelineShape& shape, const PartTimes<Real>& work, int zero, Real coupling) {
  const Layout& layout = *shape.layout;
  const std::size_t runs = layout.parts.size();
  const bool interleaved = shape.virtual_stages > 1;
  const double hop = shape.pp > 1 ? (interleaved ? shape.mesh->hop_interleaved : shape.mesh->hop) : 0;
  StackList<RunTimes<Real>, 8> stages(runs);
  StackList<KindsOf<Real>, 8> device(runs);
  StackList<Real, 8> shards(runs);
  StackList<double, 8> hops(runs);
  for (std::size_t i = 0; i < runs; ++i) {
    const PartRun& p = layout.parts[i];
    const double first = p.first ? 1 : 0, last = p.last ? 1 + work.mtp_heads : 0;
    const Times<double>&embedding = *work.embedding, &head = *work.head;
    auto part = [&](auto member) { return p.dense * (work.dense.*member) + p.moe * (work.moe.*member); };
    const Real f = part(&Times<Real>::forward) + (first * embedding.forward + last * head.forward);
    const Real b = part(&Times<Real>::input_gradient) + (first * embedding.input_gradient + last * head.input_gradient);
    const Real w = part(&Times<Real>::weight_gradient) + (first * embedding.weight_gradient + last * head.weight_gradient);
    Real shard_forward = 0, shard_backward = 0;
    if (zero >= 2) sharding_of<Real>(*shape.stack, shape.mesh->traffic, p, zero, f, b + w, shard_forward, shard_backward);
    const double hop_forward = p.last ? 0 : hop, hop_backward = p.first ? 0 : hop;
    RunTimes<Real>& stage = stages.grow();
    stage.count = p.count;
    stage.forward = f + (shard_forward + hop_forward);
    stage.input_gradient = b + (shard_backward + hop_backward + coupling);
    stage.weight_gradient = w;
    auto kind = [&](auto member) {
      return p.dense * (work.dense.kinds.*member) + p.moe * (work.moe.kinds.*member);
    };
    KindsOf<Real>& k = device.grow();
    Real& shard = shards.grow();
    double& hop_both = hops.grow();
    hop_both = hop_forward + hop_backward;
    shard = shard_forward + shard_backward;
    k.compute = kind(&KindsOf<Real>::compute) + (first * embedding.kinds.compute + last * head.kinds.compute);
    k.communication = kind(&KindsOf<Real>::communication) + (first * embedding.kinds.communication + last * head.kinds.communication) +
                      (shard + hop_both);
    k.host = kind(&KindsOf<Real>::host) + (first * embedding.kinds.host + last * head.kinds.host) + coupling;
  }
  PipelineOf<Real> out;
  out.makespan = runs_makespan<Real>(shape.schedule, shape.pp, shape.virtual_stages, shape.micro_batches, &stages[0], runs, 0.0);
  // The slowest device. With one chunk per device parts are devices; else its chunks are summed.
  Real slowest = -1;
  auto consider = [&](const KindsOf<Real>& k, Real hop_sum, Real shard_sum, std::size_t index) {
    const Real sum = k.sum();
    const auto more = above(sum, slowest);
    slowest = top(slowest, sum);
    out.slowest.compute = pick(more, k.compute, out.slowest.compute);
    out.slowest.communication = pick(more, k.communication, out.slowest.communication);
    out.slowest.host = pick(more, k.host, out.slowest.host);
    out.point_to_point = pick(more, hop_sum, out.point_to_point);
    out.sharding = pick(more, shard_sum, out.sharding);
    out.slowest_run = pick(more, Real(double(index)), out.slowest_run);
  };
  out.slowest = {0, 0, 0};
  out.point_to_point = out.sharding = out.slowest_run = 0;
  if (!interleaved) {
    for (std::size_t i = 0; i < runs; ++i) consider(device[i], hops[i], shards[i], i);
  } else {
    for (std::size_t r = 0; r < layout.devices.size(); ++r) {
      KindsOf<Real> sum{0, 0, 0};
      Real shard_sum = 0;
      double hop_sum = 0;
      for (std::size_t i = 0; i < runs; ++i) {
        const double chunks = layout.chunks[r * runs + i];
        sum.compute += chunks * device[i].compute;
        sum.communication += chunks * device[i].communication;
        sum.host += chunks * device[i].host;
        hop_sum += chunks * hops[i];
        shard_sum += chunks * shards[i];
      }
      consider(sum, hop_sum, shard_sum, r);
    }
  }
  out.ramp = out.makespan - double(shape.micro_batches) * slowest;
  out.jitter = out.makespan * shape.stage_jitter;
  return out;
}

/// Data-parallel traffic that is left exposed on the worst device, without sharded parameters (zero 0 and 1) [s].
template <class Real>
Real exposed_traffic(const Stack& s, const Layout& layout, const Traffic& t, const PartTimes<Real>& work, int zero) {
  Real worst = 0;
  for (const DeviceRun& d : layout.devices) {
    const double ends = (d.first ? 1 : 0) + (d.last ? 1 : 0);
    const double messages = s.dp_buckets * (t.dense_message + (d.moe > 0 ? t.expert_message : 0));
    double gather = d.dense * t.gather_dense_layer + d.moe * t.gather_moe_layer + ends * t.gather_embedding + messages;
    const double reduce = d.dense * t.reduce_dense_layer + d.moe * t.reduce_moe_layer + ends * t.reduce_embedding + messages;
    if (zero == 0) gather = reduce;  // an all-reduce is a reduce-scatter and a gather of gradients
    const double traffic = gather + reduce;
    if (!s.dp_overlap) {
      worst = top(worst, Real(traffic));
      continue;
    }
    const Real forward = d.dense * work.dense.forward + d.moe * work.moe.forward;
    const Real backward = d.dense * work.dense.backward() + d.moe * work.moe.backward();
    const double expert = least(traffic, d.moe * t.expert_share_moe * (t.gather_moe_layer + t.reduce_moe_layer));
    worst = top(worst, top(Real(0), reduce - backward) + top(Real(0), gather - forward) +
                           (s.dp_exposed * (traffic - expert) + s.expert_dp_exposed * expert));
  }
  return worst;
}

/// Bytes of the layers of one kind that a micro-batch leaves on a device.
template <class Real>
struct SavedOf {
  Real saved, weight_inputs, backward;  ///< as in LayerMemory; weight_inputs at most saved
};

template <class Real>
struct PassingOf {
  Real activations, working_set;
};

/// Activations and working set of a device whose stage holds `in_flight` micro-batches. Split backward (ZB-H1) holds
/// `deferred` more whose input gradient is done and whose weight gradient is not.
template <class Real>
PassingOf<Real> passing_of(const Stack& s, const DeviceRun& d, const SavedOf<Real>& dense, const SavedOf<Real>& moe, const PartMemory& m,
                           double halves, double in_flight, double deferred) {
  PassingOf<Real> out;
  const Real saved = d.dense * dense.saved + d.moe * moe.saved;
  out.activations = (in_flight * halves * (1 - s.activation_offload)) * saved;
  if (deferred > 0) out.activations += (deferred * s.deferred_weight_share) * (d.dense * dense.weight_inputs + d.moe * moe.weight_inputs);
  Real peak = 0;
  if (d.dense > 0) peak = top(peak, dense.backward);
  if (d.moe > 0) peak = top(peak, moe.backward);
  if (d.last) peak = top(peak, Real(m.head));
  if (d.last && s.bucket_bytes > 0) peak = top(peak, Real(s.bucket_bytes + 4 * m.embedding_parameters));  // fp32 head gradient
  // The embedding's gradient exists when the micro-batch it belongs to is already freed.
  if (d.first && s.wgrad_fusion) peak = top(peak, m.embedding - halves * saved);
  out.working_set = peak;
  return out;
}

}  // namespace
}  // namespace tessera
