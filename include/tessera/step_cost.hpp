// What one optimizer step costs: seconds, with a breakdown that sums to the step, and bytes per stage, with a
// breakdown that sums to the peak. Physics: cost-model.md; memory: memory-and-space.md section A.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <string_view>
#include <vector>
#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Seconds of a step by cause. The sum is the step time. Terms count the critical (slowest) stage; what is
/// hidden is not in it.
struct TimeBreakdown {
  double gemm = 0, experts = 0, attention = 0, pointwise = 0, casts = 0, head = 0, recompute = 0;
  double tensor_parallel = 0, context_parallel = 0, expert_exchange = 0, point_to_point = 0,
         data_parallel = 0;                          ///< exposed communication
  double host = 0;                                   ///< time the device waits for the host
  double ramp = 0;                                   ///< pipeline fill, drain and stage imbalance
  double optimizer = 0, fixed = 0, jitter = 0;
  double sum() const;
  double compute() const;        ///< gemm .. recompute, optimizer
  double communication() const;  ///< tensor_parallel .. data_parallel
};

/// Bytes of one stage by kind. The sum is allocated memory at the peak.
struct StageMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, wgrad_buffers = 0, working_set = 0,
         point_to_point = 0, constant = 0;
  double layers = 0;     ///< layers on the stage
  double in_flight = 0;  ///< micro-batches held
  double sum() const;
};

struct StepCost {
  double step_seconds = 0;
  TimeBreakdown time;
  std::vector<StageMemory> stages;          ///< all pp stages
  int heaviest_stage = 0;
  double memory_bytes = 0;                  ///< allocated on the heaviest stage
  double memory_with_reserve_bytes = 0;     ///< + fragmentation, context and buffers: decides fit
  double capacity_bytes = 0;
  double expected_error = 0;                ///< relative error to expect of step_seconds (1 sigma-like mean)
  bool fits() const { return memory_with_reserve_bytes <= capacity_bytes; }
};

/// FLOPs of one token, forward and backward, by convention (cost-model.md): always name the one used.
struct TokenFlops {
  double law = 0;                   ///< 6 * N_act, non-embedding
  double model = 0;                 ///< GEMMs with head, causal attention halved, no embedding
  double model_full_attention = 0;  ///< the same with the full attention square
  double hardware = 0;              ///< model + recomputation
};
TokenFlops token_flops(const Architecture&, std::int64_t sequence, Recompute = Recompute::none);

/// Scalar reference: cost of one legal plan. Precondition: the plan passed legality (search/legality.hpp); the
/// architecture passed check(). Never NaN. Throws InputError for architectures it cannot cost (Mamba layers).
StepCost evaluate(const Architecture&, const Cluster&, const Plan&, std::int64_t sequence);

/// Law-convention utilisation 6 N_act * batch * sequence / (step * devices * bf16 peak).
double law_mfu(double active_parameters, std::int64_t batch, std::int64_t sequence, double step_seconds,
               std::int64_t devices, double peak_bf16);

// ---------------------------------------------------------------------------------------------------------
// The batched path of the search. Digits below (mesh, ep, etp): zero, micro-batch, recomputation, variant.

/// A schedule with its virtual stages: one digit.
struct Variant {
  Schedule schedule = Schedule::one_f_one_b;
  int virtual_stages = 1;
  bool operator==(const Variant&) const = default;
};

/// Values of the inner digits, in id order (zero most significant, variant least).
struct InnerAxes {
  std::vector<int> zero{1};
  std::vector<int> micro_batch{1};
  std::vector<Recompute> recompute{Recompute::none};
  std::vector<Variant> variant{Variant{}};
  std::size_t size() const { return zero.size() * micro_batch.size() * recompute.size() * variant.size(); }
  std::size_t index(std::size_t z, std::size_t b, std::size_t r, std::size_t v) const {
    return ((z * micro_batch.size() + b) * recompute.size() + r) * variant.size() + v;
  }
};

/// What the sweep records of an evaluation. Seconds and bytes; compute + communication + ramp + host = step
/// (fixed and jitter are in host).
struct PlanCost {
  double step_seconds, memory_bytes, memory_with_reserve_bytes;
  double compute_seconds, communication_seconds, ramp_seconds, host_seconds;
};

/// What the pruned search learns of a slice: one (micro-batch, variant) of a block. Indices are inner ones, kNone if there is none.
struct SliceCost {
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t best = kNone;         ///< fastest plan that fits, the least index where several are
  PlanCost cost{};                  ///< of it
  std::size_t miss = kNone;         ///< of those that do not fit the one of least memory, the least index where several are
  PlanCost miss_cost{};             ///< of it; memory only
  std::uint64_t fits = 0, misfits = 0, slower = 0;         ///< plans: costed, costed and too large, left out by the bound
  std::size_t first_misfit = kNone, first_slower = kNone;  ///< least index of these
};

/// Bounds of a block that neither micro-batch nor recomputation nor schedule changes; infinity where no plan is of the kind. As
/// it is made it adds nothing.
struct StepFloor {
  double replicated = 0;    ///< what a step adds to its pipeline where gradients are whole (ZeRO 0 and 1) [s]
  double sharded = std::numeric_limits<double>::infinity();  ///< the same with ZeRO 2 and 3
  double shard_dense = 0, shard_moe = 0, shard_end = 0;  ///< and what these add to each layer, embedding and head of a micro-batch
};

/// Costs all inner digits of one (architecture, cluster, batch, sequence, precision) x (mesh, ep, etp) block.
/// Same numbers as evaluate() to 1e-12. Holds tables of the architecture's profiles; not thread-safe: one per
/// task. Cost does not grow with layers, micro-batches or devices.
class BlockCost {
 public:
  /// `memory`: where the tables lie; it must outlive them and needs no lock.
  BlockCost(const Architecture&, const Cluster&, const InnerAxes&, std::int64_t batch, std::int64_t sequence,
            Precision, Optimizer, std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  ~BlockCost();
  BlockCost(BlockCost&&) noexcept;
  /// Chooses the block. micro_batch, zero, recompute, schedule of `mesh` are ignored.
  void select(const Plan& mesh);
  /// The same in two steps: first pp, cp, tp, dp; then ep and etp.
  void select_mesh(const Plan& mesh);
  void select_experts(int ep, int etp);
  /// Least memory (with reserve) of the inner digits with this ZeRO index and the legal mask; exact, one
  /// evaluation (memory-and-space.md B.6). Infinity where nothing is legal. A floor of at most `enough` bytes may be any
  /// number from the true one to `enough`: what fits need not be known better.
  double memory_floor(std::size_t zero_index, const std::uint8_t* legal, double enough) const;
  /// Lower bound of the step time [s] of every plan of a (micro-batch, variant) on the mesh, whatever its ep and etp. Needs
  /// select_mesh() alone. Formula and proof: model/floor_form.hpp. Precondition of a slice, here and below: the micro-batch
  /// divides the batch and the variant is legal.
  double mesh_time_floor(std::size_t micro_batch_index, std::size_t variant_index) const;
  /// Lower bound of the memory with reserve [B] of the states of plans on the mesh with these ep and etp, of those whose ZeRO
  /// index has zero[i] != 0; infinity where there are none. Needs select_mesh() alone. `enough` as above.
  double states_floor(int ep, int etp, const std::uint8_t* zero, double enough) const;
  /// Bounds of the selected block's plans whose ZeRO index has zero[i] != 0.
  StepFloor floor(const std::uint8_t* zero) const;
  /// Lower bound of the step time [s] of a slice of the selected block, of which `block` is the floor.
  double time_floor(std::size_t micro_batch_index, std::size_t variant_index, const StepFloor& block) const;
  /// Costs the plans of a slice whose bound, of their recomputation mode, is at most `limit` [s]. zero, mode: which indices of these axes are legal; their
  /// product is.
  SliceCost slice(std::size_t micro_batch_index, std::size_t variant_index, const StepFloor& block, const std::uint8_t* zero,
                  const std::uint8_t* mode, double limit) const;
  /// Fills out[i] for every i with legal[i] != 0; other entries are untouched. Where the plan does not fit the
  /// step time is 0 and only memory is set.
  void cost(const std::uint8_t* legal, PlanCost* out) const;

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace tessera
