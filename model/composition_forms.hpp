// From times and bytes of layers to those of a step: formulas of cost-model.md as templates on Real (model/lanes.hpp),
// for the scalar reference and the batched path alike.
#pragma once
#include <array>
#include <cstddef>

#include "model/composition.hpp"
#include "model/pipeline_forms.hpp"

namespace tessera {
namespace {

/// Work of a device per micro-batch, and where its layers stand in the layout: `run` (and `other`) as in StepParts.
template <class Real>
struct DeviceWork {
  KindsOf<Real> kinds;
  Real point_to_point, sharding, run, other;
};

/// Pipeline of a step.
template <class Real>
struct PipelineOf {
  Real makespan, ramp, jitter;
  DeviceWork<Real> slowest;
};

/// Parts of a layout, by run.
template <class Real>
struct PartsOf {
  explicit PartsOf(std::size_t runs) : stages(runs), kinds(runs), sharding(runs), hops(runs) {}
  StackList<RunTimes<Real>, 8> stages;
  StackList<KindsOf<Real>, 8> kinds;
  StackList<Real, 8> sharding;
  StackList<double, 8> hops;
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
void add_parts(const PipelineShape& shape, const PartTimes<Real>& work, int zero, Real coupling, PartsOf<Real>& out) {
  const Layout& layout = *shape.layout;
  const double hop = shape.pp > 1 ? (shape.virtual_stages > 1 ? shape.mesh->hop_interleaved : shape.mesh->hop) : 0;
  for (const PartRun& p : layout.parts) {
    const double first = p.first ? 1 : 0, last = p.last ? 1 + work.mtp_heads : 0;
    const Times<double>&embedding = *work.embedding, &head = *work.head;
    auto part = [&](auto member) { return p.dense * (work.dense.*member) + p.moe * (work.moe.*member); };
    const Real f = part(&Times<Real>::forward) + (first * embedding.forward + last * head.forward);
    const Real b = part(&Times<Real>::input_gradient) + (first * embedding.input_gradient + last * head.input_gradient);
    const Real w = part(&Times<Real>::weight_gradient) + (first * embedding.weight_gradient + last * head.weight_gradient);
    Real shard_forward = 0, shard_backward = 0;
    if (zero >= 2) sharding_of<Real>(*shape.stack, shape.mesh->traffic, p, zero, f, b + w, shard_forward, shard_backward);
    const double hop_forward = p.last ? 0 : hop, hop_backward = p.first ? 0 : hop;
    RunTimes<Real>& stage = out.stages.grow();
    stage.count = p.count;
    stage.forward = f + (shard_forward + hop_forward);
    stage.input_gradient = b + (shard_backward + hop_backward + coupling);
    stage.weight_gradient = w;
    auto kind = [&](auto member) {
      return p.dense * (work.dense.kinds.*member) + p.moe * (work.moe.kinds.*member);
    };
    KindsOf<Real>& k = out.kinds.grow();
    Real& shard = out.sharding.grow();
    double& hop_both = out.hops.grow();
    hop_both = hop_forward + hop_backward;
    shard = shard_forward + shard_backward;
    k.compute = kind(&KindsOf<Real>::compute) + (first * embedding.kinds.compute + last * head.kinds.compute);
    k.communication = kind(&KindsOf<Real>::communication) + (first * embedding.kinds.communication + last * head.kinds.communication) +
                      (shard + hop_both);
    k.host = kind(&KindsOf<Real>::host) + (first * embedding.kinds.host + last * head.kinds.host) + coupling;
  }
}

/// The device with most work per micro-batch. A device of a linear schedule is a part.
template <class Real>
class SlowestDevice {
 public:
  SlowestDevice(const Layout& layout, const PartsOf<Real>& parts) : layout_(layout), parts_(parts) {}

  DeviceWork<Real> of_parts() {
    for (std::size_t i = 0; i < parts_.kinds.size(); ++i) consider(parts_.kinds[i], parts_.hops[i], parts_.sharding[i], i, i);
    return slowest_;
  }

  /// Interleaved: its chunks summed.
  DeviceWork<Real> of_chunks() {
    const std::size_t runs = parts_.kinds.size();
    for (std::size_t r = 0; r < layout_.devices.size(); ++r) {
      KindsOf<Real> sum{0, 0, 0};
      Real shard_sum = 0;
      double hop_sum = 0;
      for (std::size_t i = 0; i < runs; ++i) {
        const double chunks = layout_.chunks[r * runs + i];
        const KindsOf<Real>& k = parts_.kinds[i];
        sum.compute += chunks * k.compute;
        sum.communication += chunks * k.communication;
        sum.host += chunks * k.host;
        hop_sum += chunks * parts_.hops[i];
        shard_sum += chunks * parts_.sharding[i];
      }
      consider(sum, hop_sum, shard_sum, r, r);
    }
    return slowest_;
  }

  /// DualPipe: a device runs half of the micro-batches through a stage, the others through that stage's mirror image.
  DeviceWork<Real> of_pairs(int pp) {
    std::size_t i = 0, j = parts_.kinds.size() - 1;
    int left = layout_.parts[i].count, right = layout_.parts[j].count;
    for (int device = 0; device < pp / 2;) {
      const KindsOf<Real>&a = parts_.kinds[i], &b = parts_.kinds[j];
      consider({0.5 * (a.compute + b.compute), 0.5 * (a.communication + b.communication), 0.5 * (a.host + b.host)},
               0.5 * (parts_.hops[i] + parts_.hops[j]), 0.5 * (parts_.sharding[i] + parts_.sharding[j]), i, j);
      const int alike = left < right ? left : right;
      device += alike, left -= alike, right -= alike;
      if (device >= pp / 2) break;
      if (left == 0) left = layout_.parts[++i].count;
      if (right == 0) right = layout_.parts[--j].count;
    }
    return slowest_;
  }

 private:
  void consider(const KindsOf<Real>& k, Real hops, Real sharding, std::size_t run, std::size_t other) {
    const Real sum = k.sum();
    const auto more = above(sum, most_);
    most_ = top(most_, sum);
    slowest_.kinds.compute = pick(more, k.compute, slowest_.kinds.compute);
    slowest_.kinds.communication = pick(more, k.communication, slowest_.kinds.communication);
    slowest_.kinds.host = pick(more, k.host, slowest_.kinds.host);
    slowest_.point_to_point = pick(more, hops, slowest_.point_to_point);
    slowest_.sharding = pick(more, sharding, slowest_.sharding);
    slowest_.run = pick(more, Real(double(run)), slowest_.run);
    slowest_.other = pick(more, Real(double(other)), slowest_.other);
  }

  const Layout& layout_;
  const PartsOf<Real>& parts_;
  Real most_ = -1;
  DeviceWork<Real> slowest_{{0, 0, 0}, 0, 0, 0, 0};
};

template <class Real>
PipelineOf<Real> pipeline_of(const PipelineShape& shape, const PartTimes<Real>& work, int zero, Real coupling) {
  const Layout& layout = *shape.layout;
  PartsOf<Real> parts(layout.parts.size());
  add_parts<Real>(shape, work, zero, coupling, parts);
  PipelineOf<Real> out;
  out.makespan = runs_makespan<Real>(shape.schedule, shape.pp, shape.virtual_stages, shape.micro_batches, &parts.stages[0],
                                     layout.parts.size(), 0.0);
  SlowestDevice<Real> device(layout, parts);
  if (shape.virtual_stages > 1) out.slowest = device.of_chunks();
  else if (shape.schedule == Schedule::dualpipe && shape.pp > 1) out.slowest = device.of_pairs(shape.pp);
  else out.slowest = device.of_parts();
  // Every form counts a device's own operations among its paths: below zero there is rounding alone.
  out.ramp = top(Real(0), out.makespan - double(shape.micro_batches) * out.slowest.kinds.sum());
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
