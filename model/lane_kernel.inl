// The kernel's text, compiled once per instruction set: TESSERA_LANE_KERNEL names the result.
#include "model/composition_forms.hpp"
#include "model/lane_kernel.hpp"

namespace tessera {
namespace {

Times<Lanes> times_at(const TimesRows& r, int lane) {
  return {Lanes::load(r.forward + lane), Lanes::load(r.input_gradient + lane), Lanes::load(r.weight_gradient + lane),
          {Lanes::load(r.compute + lane), Lanes::load(r.communication + lane), Lanes::load(r.host + lane)}};
}
SavedOf<Lanes> saved_at(const SavedRows& r, int lane) {
  return {Lanes::load(r.saved + lane), Lanes::load(r.weight_inputs + lane), Lanes::load(r.backward + lane)};
}

/// Memory of the wanted ZeRO indices; true: a wanted lane of some index fits.
bool memory_of(const LaneTask& t, int lane, LaneResult* out) {
  const SavedOf<Lanes> dense = saved_at(*t.dense_saved, lane), moe = saved_at(*t.moe_saved, lane);
  const double halves = held_share(t.schedule);
  StackList<Lanes, 16> allocated(t.place_count), moving(t.place_count);
  for (std::size_t k = 0; k < t.place_count; ++k) {
    const PlaceTask& place = t.places[k];
    const auto p = passing_of<Lanes>(*t.stack, *place.run, dense, moe, *t.memory, halves, place.flight.held, place.flight.deferred);
    moving.grow() = p.activations + p.working_set;
    allocated.grow() = moving[k] + t.passing_constant;
  }
  bool any = false;
  for (std::size_t z = 0; z < t.zero_count; ++z) {
    if (!t.zero_wanted[z]) continue;
    Lanes most = 0, passing = 0;
    for (std::size_t k = 0; k < t.place_count; ++k) {
      const Lanes bytes = t.states[z * t.place_count + k] + allocated[k];
      passing = pick(above(bytes, most), moving[k], passing);
      most = top(most, bytes);
    }
    const Lanes reserved = t.fragmentation * most + t.stack->activation_fragmentation * passing + t.reserve_constant;
    most.store(out[z].memory + lane);
    reserved.store(out[z].reserved + lane);
    for (int i = 0; i < kWidth; ++i) any |= t.mode_wanted[lane + i] && out[z].reserved[lane + i] <= t.capacity;
  }
  return any;
}

void run(const LaneTask& t, int lane, LaneResult* out) {
  if (!memory_of(t, lane, out)) return;
  const PartTimes<Lanes> work{times_at(*t.dense, lane), times_at(*t.moe, lane), t.embedding, t.head, t.mtp_heads};
  const PipelineShape shape{t.layout, t.mesh, t.stack, t.schedule, t.pp, t.virtual_stages, t.micro_batches, t.stage_jitter};
  const Lanes coupling = Lanes::load(t.coupling + lane);
  const double n = double(t.micro_batches);
  PipelineOf<Lanes> pipeline;
  int piped = -1;  // ZeRO 0 and 1 share the pipeline; 2 and 3 add their traffic to the parts
  for (std::size_t z = 0; z < t.zero_count; ++z) {
    if (!t.zero_wanted[z]) continue;
    const int zero = t.zero[z], kind = zero < 2 ? 1 : zero;
    if (piped != kind) pipeline = pipeline_of<Lanes>(shape, work, kind, coupling);
    piped = kind;
    Lanes exposed = zero >= 1 ? t.mesh->broadcast : 0.0;
    if (zero < 2) exposed = exposed_traffic<Lanes>(*t.stack, *t.layout, t.mesh->traffic, work, zero) + exposed;
    const double optimizer = t.optimizer[z], fixed = t.stack->step_seconds;
    const Lanes jitter = pipeline.jitter + (pipeline.makespan + pipeline.jitter + exposed + (optimizer + fixed)) * t.mesh->jitter;
    LaneResult& r = out[z];
    (pipeline.makespan + exposed + (optimizer + fixed) + jitter).store(r.step + lane);
    (n * pipeline.slowest.kinds.compute + optimizer).store(r.compute + lane);
    (n * pipeline.slowest.kinds.communication + exposed).store(r.communication + lane);
    pipeline.ramp.store(r.ramp + lane);
    (n * pipeline.slowest.kinds.host + fixed + jitter).store(r.host + lane);
  }
}

void run_all(const LaneTask& t, LaneResult* out) {
  for (int lane = 0; lane < kLanes; lane += kWidth) run(t, lane, out);
}

void floor_all(const FloorTask& t, Row& out) {
  for (int lane = 0; lane < kLanes; lane += kWidth) {
    const PartTimes<Lanes> work{times_at(*t.dense, lane), times_at(*t.moe, lane), t.embedding, t.head, t.mtp_heads};
    step_floor<Lanes>(t.shape, work, Lanes::load(t.coupling + lane)).store(out + lane);
  }
}

}  // namespace

extern const LaneKernel TESSERA_LANE_KERNEL;
const LaneKernel TESSERA_LANE_KERNEL{TESSERA_LANE_NAME, run_all, floor_all};

}  // namespace tessera
