// An execution plan: how the model is cut over the devices. A plain value.
//
// Meshes: dense layers N = tp*cp*pp*dp; the expert mesh of a stage is folded over tp*cp*dp:
// ep*etp*edp = tp*cp*dp. Rank order: tp fastest, then cp, dp (ep inside it), pp slowest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

enum class Schedule : std::uint8_t { one_f_one_b, interleaved, zb_h1, dualpipe };
enum class Recompute : std::uint8_t { none, selective, super_selective, full };
enum class Precision : std::uint8_t { bf16, fp8, mxfp8, nvfp4 };
enum class Optimizer : std::uint8_t { adam, muon, scion };

struct Plan {
  int tp = 1, cp = 1, pp = 1, dp = 1;  ///< tensor, context, pipeline, data parallel degrees
  int ep = 1, etp = 1;                 ///< expert and expert-tensor parallel degrees
  int virtual_stages = 1;              ///< model chunks per device; > 1 only with Schedule::interleaved
  int micro_batch = 1;                 ///< sequences per micro-batch
  std::int64_t batch = 0;              ///< sequences per optimizer step, over all data-parallel ranks
  int zero = 1;                        ///< ZeRO stage 0..3 (3: fully sharded)
  Recompute recompute = Recompute::none;
  Schedule schedule = Schedule::one_f_one_b;
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;

  std::int64_t devices() const { return std::int64_t{1} * tp * cp * pp * dp; }
  /// Expert-data-parallel degree tp*cp*dp/(ep*etp).
  int edp() const { return static_cast<int>(std::int64_t{1} * tp * cp * dp / (std::int64_t{1} * ep * etp)); }
  /// Micro-batches per step and data-parallel rank.
  std::int64_t micro_batches() const { return batch / (std::int64_t{1} * dp * micro_batch); }
  bool operator==(const Plan&) const = default;
};

/// Why a point is refused. Order is the order in which rules are tested; `none` means legal.
enum class Reason : std::uint8_t {
  none,
  devices,            ///< tp*cp*pp*dp is not the number of devices
  tp_heads,           ///< tp does not divide the query heads
  tp_kv_heads,        ///< tp is neither a divisor nor a multiple of the key/value heads
  tp_ffn,             ///< tp does not divide an FFN width
  cp_sequence,        ///< 2*cp (cp > 1) does not divide the sequence
  tp_sequence,        ///< tp does not divide the tokens of a context-parallel rank
  pp_layers,          ///< layers cannot be spread over the stages (uneven stages off or impossible)
  ep_experts,         ///< ep does not divide the experts
  etp_ffn,            ///< etp does not divide the expert width
  expert_mesh,        ///< ep*etp does not divide tp*cp*dp
  folding,            ///< the stack cannot fold the expert mesh: needs etp = tp or 1 and ep | dp
  dense_expert_axis,  ///< ep or etp > 1 on a dense model
  batch,              ///< micro_batch*dp does not divide the batch
  virtual_layers,     ///< pp*virtual_stages does not divide the layers
  interleaved_batches,  ///< interleaving needs n_mb to be a multiple of pp
  schedule_batches,   ///< ZB-H1 needs n_mb >= pp; DualPipe needs pp and n_mb even and n_mb >= 2 pp
  schedule_stack,     ///< the stack does not have this schedule
  zero_stack,         ///< the stack cannot combine this ZeRO stage with pp > 1
  precision_device,   ///< the device has no such number format
  not_canonical,      ///< the same plan as another id
  memory,             ///< evaluated; does not fit
  memory_bound,       ///< a whole sub-space that an exact bound refuses
  time_bound,         ///< pruned search: a sub-space that an exact bound proves slower than the best plan
  count_
};

std::string_view to_string(Schedule);
std::string_view to_string(Recompute);
std::string_view to_string(Precision);
std::string_view to_string(Optimizer);
std::string_view to_string(Reason);      ///< the key used in JSON and HDF5, e.g. "tp_heads"
std::string_view explanation(Reason);    ///< one sentence for a person

std::optional<Schedule> schedule_from(std::string_view);
std::optional<Recompute> recompute_from(std::string_view);
std::optional<Precision> precision_from(std::string_view);
std::optional<Optimizer> optimizer_from(std::string_view);

}  // namespace tessera
