// The kernel of the batched path: all recomputation modes and ZeRO stages of one (mesh, micro-batch, variant) at once.
// Compiled for several instruction sets (lane_kernel_*.cpp), of which the best that the processor has is chosen at start;
// all give the same bits (no contraction, the same order of operations).
#pragma once
#include <cstddef>
#include <cstdint>

#include "model/composition.hpp"
#include "model/floor_form.hpp"

namespace tessera {

/// Recomputation modes side by side; unused lanes repeat the first mode.
inline constexpr int kLanes = 4;
using Row = double[kLanes];

/// Times of a layer kind by mode: Times in structure-of-arrays form.
struct TimesRows {
  alignas(32) Row forward, input_gradient, weight_gradient, compute, communication, host;
  void set(int lane, const Times<double>&);
};
/// Saved bytes of a layer kind by mode (LayerMemory).
struct SavedRows {
  alignas(32) Row saved, weight_inputs, backward;
  void set(int lane, const LayerMemory&);
};

/// A place at which the memory's peak can lie.
struct PlaceTask {
  const DeviceRun* run;
  Flight flight;
};

/// What all lanes share.
struct LaneTask {
  const Stack* stack;
  const Layout* layout;
  const MeshCost* mesh;
  const PartMemory* memory;          ///< of its numbers those that no mode changes
  const TimesRows *dense, *moe;
  const Times<double>*embedding, *head;
  const SavedRows *dense_saved, *moe_saved;
  const double* coupling;            ///< Row: further seconds of every part per micro-batch
  double mtp_heads, stage_jitter;
  Schedule schedule;
  int pp, virtual_stages;
  std::int64_t micro_batches;
  const PlaceTask* places;
  std::size_t place_count;
  double passing_constant;           ///< hop buffers and the stack's constant [B]
  double fragmentation;              ///< factor on allocated bytes
  double reserve_constant;           ///< [B]
  double capacity;                   ///< [B]
  const double* states;              ///< [B] by (ZeRO index, place)
  const int* zero;                   ///< ZeRO stages
  const std::uint8_t* zero_wanted;   ///< by ZeRO index
  std::size_t zero_count;
  const double* optimizer;           ///< [s] by ZeRO index
  const std::uint8_t* mode_wanted;   ///< by lane: times are computed where one of these fits
};

/// Bounds of all lanes.
struct FloorTask {
  FloorShape shape;
  const TimesRows *dense, *moe;
  const Times<double>*embedding, *head;
  const double* coupling;            ///< as in LaneTask
  double mtp_heads;
};

/// Results of one ZeRO index; seconds where the plan does not fit have no meaning.
struct LaneResult {
  alignas(32) Row step, memory, reserved, compute, communication, ramp, host;
};

struct LaneKernel {
  const char* name;
  /// Fills out[z] of the wanted ZeRO indices; times only where a wanted lane fits.
  void (*run)(const LaneTask&, LaneResult* out);
  /// Lower bound of the step time by lane [s].
  void (*floor)(const FloorTask&, Row& out);
};
/// The best kernel for this processor, or the one that the environment names in TESSERA_KERNEL (portable, avx2, avx512).
/// Throws InputError where the processor does not have that one.
const LaneKernel& lane_kernel();
/// Those this processor can run, the portable one first: for tests.
std::size_t lane_kernels(const LaneKernel* out[3]);

}  // namespace tessera
