// The sweep: the way through the space of a study, and what comes out of it. The search side knows no file: it
// hands finished units to a UnitSink (io/ writes them as segments) and ends with a SweepResult.
//
// Words: a unit is a contiguous range of ids, the smallest piece of work and of output; its bounds depend on
// the study only. points = refused by a rule + refused[memory_bound] + refused[time_bound] + evaluations; evaluations = feasible +
// refused[memory].
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/study.hpp"

namespace tessera {

class Space;      // tessera/space.hpp
struct PlanCost;  // tessera/step_cost.hpp

inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::count_);
inline constexpr std::uint64_t kNoId = ~std::uint64_t{0};

/// Status of a recorded evaluation.
enum class Status : std::uint8_t { fits = 0, does_not_fit = 1 };

/// The columns of /evaluations, one entry per recorded evaluation, ids ascending.
/// compute + communication + ramp + host = step.
struct Columns {
  std::vector<std::uint64_t> id;
  std::vector<std::uint8_t> status;    ///< Status
  std::vector<float> step_seconds;     ///< [s]; 0 where the plan does not fit
  std::vector<float> memory_bytes;     ///< [B] allocated on the heaviest stage
  std::vector<float> compute_seconds, communication_seconds, ramp_seconds, host_seconds;  ///< [s]
  std::size_t size() const { return id.size(); }
};

/// The best plan of one cluster x batch x architecture within a unit (or after reduction in the whole study).
/// Where nothing fits it is the closest miss: least memory_with_reserve_bytes, seconds 0.
struct BestRow {
  std::uint32_t cluster = 0, batch = 0, architecture = 0;  ///< indices into the study
  std::uint32_t feasible = 0;                              ///< 1: the plan fits; 0: closest miss
  std::uint64_t id = kNoId;
  double step_seconds = 0;                                 ///< [s]
  double memory_bytes = 0, memory_with_reserve_bytes = 0;  ///< [B]
  double compute_seconds = 0, communication_seconds = 0, ramp_seconds = 0, host_seconds = 0;  ///< [s]
  bool operator==(const BestRow&) const = default;
  /// Becomes a plan that fits.
  void take(std::uint64_t plan, const PlanCost&);
  /// Where nothing fits so far: becomes this plan, which does not fit either, if it misses the limit by less (at equal memory:
  /// has the lesser id).
  void take_miss(std::uint64_t plan, const PlanCost&);
};
static_assert(sizeof(BestRow) == 80, "BestRow is written to disk as it is: no padding");

/// Total order of plans of one cluster x batch x architecture: what fits first, then step time (what does not
/// fit: memory), then id. Any split of the work gives the same best.
bool better(const BestRow&, const BestRow&);

/// The plan that missed the memory limit by least.
struct ClosestMiss {
  std::uint64_t id = kNoId;
  double excess_bytes = 0;               ///< memory with reserve minus the limit [B]
  double memory_with_reserve_bytes = 0;  ///< [B]
  bool operator==(const ClosestMiss&) const = default;
  /// Becomes a plan of this memory [B] if it misses the limit [B] by less (by as much and has the lesser id).
  void take(std::uint64_t plan, double memory_with_reserve, double limit);
};

/// Integer counts and one sample each: they add up in any order.
struct Counts {
  std::uint64_t points = 0, evaluations = 0, feasible = 0;
  std::array<std::uint64_t, kReasonCount> refused{};  ///< by Reason; [none] stays 0
  std::array<std::uint64_t, kReasonCount> sample{};   ///< least id refused for the reason; kNoId: none
  ClosestMiss miss;
  Counts() { sample.fill(kNoId); }
  std::uint64_t refused_for(Reason r) const { return refused[static_cast<std::size_t>(r)]; }
  void add(const Counts&);
  bool operator==(const Counts&) const = default;
};

/// What of a unit is needed to go on without evaluating it again.
struct UnitSummary {
  std::uint64_t unit = 0;           ///< index, 0 .. units of the space - 1
  std::uint64_t rows = 0;           ///< recorded evaluations
  std::uint64_t columns_hash = 0;   ///< hash_columns() of what was recorded
  Counts counts;
  std::vector<BestRow> best;        ///< ascending (cluster, batch, architecture)
};

struct UnitResult : UnitSummary {
  Columns columns;  ///< empty with Record::best
};

/// Hash of the columns' bytes, independent of how they are stored.
std::uint64_t hash_columns(const Columns&);

/// Where finished units go. One per rank; every call comes from the rank's main thread, one at a time.
/// A sink may gather several small units before it writes; flush() writes what is left.
class UnitSink {
 public:
  virtual ~UnitSink() = default;
  /// Units that an earlier run has finished and that are still whole. Called once, on rank 0, before any
  /// write; empty when nothing is resumed. Throws InputError/RunError.
  virtual std::vector<UnitSummary> finished() { return {}; }
  /// Takes a unit. Throws RunError (disk full, ...): the sweep then stops on all ranks.
  virtual void write(UnitResult&&) = 0;
  /// All units written so far are safe on disk after it.
  virtual void flush() {}
};

/// Keeps nothing on disk (estimate, tests, callers that only want the result).
class NullSink : public UnitSink {
 public:
  void write(UnitResult&&) override {}
};

/// A row of top[]: the best plan over plans and batches of one architecture in an envelope.
struct TopRow {
  std::int64_t rank = 0;             ///< 1 = least loss; restarts in each envelope
  std::uint32_t cluster = 0, batch = 0, architecture = 0;  ///< indices into the study
  double window_days = 0;            ///< [days]
  std::uint64_t id = kNoId;
  Plan plan;
  double step_seconds = 0;           ///< [s]
  double mfu = 0;                    ///< fraction, law convention, over the dense bf16 peak
  double memory_bytes = 0, memory_with_reserve_bytes = 0;  ///< [B]
  double compute_seconds = 0, communication_seconds = 0, ramp_seconds = 0, host_seconds = 0;  ///< [s]
  double goodput = 1;                ///< fraction
  double tokens = 0;                 ///< D
  double tokens_per_active_parameter = 0;
  bool tokens_cut = false;           ///< D was cut to the upper bound
  double model_flops = 0;            ///< 6 * N_act * D [FLOP]
  double loss = 0;                   ///< [nats per token]
};

/// Architectures of an envelope that are not in top[], by cause.
struct EnvelopeCounts {
  std::uint32_t cluster = 0;
  double window_days = 0;             ///< [days]
  std::uint64_t ranked = 0;           ///< architectures with a loss
  std::uint64_t nothing_fits = 0;     ///< no plan is legal and fits
  std::uint64_t over_limits = 0;      ///< above a limit for serving
  std::uint64_t too_few_tokens = 0;   ///< below the bound on tokens per active parameter
  std::uint64_t outside_law = 0;      ///< the law has no value there
};

struct SweepResult {
  std::uint64_t architectures = 0;
  Counts counts;
  std::vector<BestRow> best;  ///< ascending (cluster, batch, architecture); triples without a legal plan left out
  std::vector<TopRow> top;    ///< envelopes in the order clusters x days, at most Study::top rows each
  std::vector<EnvelopeCounts> envelopes;
  std::uint64_t signature = 0;  ///< hash of counts, best and recorded columns; not of ranks, threads, time
  std::uint64_t units_total = 0, units_reused = 0, units_done = 0;
  std::uint64_t rows = 0;       ///< recorded evaluations
  // Not part of the result, only of this run:
  double seconds = 0;           ///< wall time [s]
  int ranks = 1, threads = 1;
  bool interrupted = false;     ///< stopped by a signal or the time limit; can be resumed
};

/// Adds unit summaries in any order and gives the same result for any order.
class Reducer {
 public:
  explicit Reducer(const Study&, const Space&);
  void add(const UnitSummary&);
  /// Ranked result; ranks, threads and seconds are left at their defaults.
  SweepResult result() const;
  /// Bytes for sending to another rank, and taking them in.
  std::vector<std::uint8_t> pack() const;
  void merge(std::span<const std::uint8_t> packed);
  const Counts& counts() const { return counts_; }
  std::uint64_t units() const { return units_; }
  /// Best feasible row so far by model FLOPs delivered per second, for the progress line.
  const BestRow* fastest() const { return fastest_.id == kNoId ? nullptr : &fastest_; }

 private:
  void keep(const BestRow&);
  const Study* study_;
  const Space* space_;
  Counts counts_;
  std::uint64_t units_ = 0, rows_ = 0, units_hash_ = 0;
  BestRow fastest_;
  std::vector<BestRow> best_;  ///< index (cluster * batches + batch) * architectures + architecture
};

class Context;  // search/context.hpp: one process, MPI, or a dry run

struct Progress {
  std::uint64_t units_total = 0;
  std::uint64_t units_taken = 0;   ///< given out to any rank, or reused
  std::uint64_t units_reused = 0;
  double share_taken = 0;          ///< of the expected work (legal plans) that is given out or reused, 0..1
  double share_reused = 0;         ///< of the expected work, 0..1
  double seconds = 0;              ///< since the start [s]
  int ranks = 1;
  const Reducer* own = nullptr;    ///< what rank 0 itself has finished (and reused)
};

struct SweepOptions {
  int threads = 1;                            ///< evaluating threads of this rank
  std::optional<double> time_limit_seconds;   ///< finish the units in hand and stop after this time [s]
  std::function<bool()> stop;                 ///< asked about every millisecond; true: finish units in hand
  std::function<void(const Progress&)> progress;  ///< called on rank 0 about four times a second and at the end
};

/// Runs the sweep on every rank of the context (a collective call). The result is complete on rank 0; on other
/// ranks it has counts of the rank only. Throws on all ranks if the sink of one rank throws.
SweepResult sweep(const Study&, const Space&, Context&, UnitSink&, const SweepOptions&);

}  // namespace tessera
