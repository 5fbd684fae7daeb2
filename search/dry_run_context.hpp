// A context that pretends to be N ranks, and a rehearsal of the sweep's distribution in it: the units that the real
// work source gives out, in its order, on a clock of its own. For estimates before an allocation is spent.
#pragma once
#include <span>

#include "search/serial_context.hpp"
#include "search/work_order.hpp"

namespace tessera {

/// Rank 0 of N ranks of which the others do not exist: collective calls see this rank's values only.
class DryRunContext : public SerialContext {
 public:
  explicit DryRunContext(int ranks) : ranks_(ranks) {}
  int ranks() const override { return ranks_; }

 private:
  int ranks_;
};

/// What the machine between the ranks is taken to cost. Defaults: a counter served by rank 0 (about 1 us a fetch,
/// measured on one node; its main thread looks about every millisecond, so half of one on average), and a file
/// system that takes a segment in 5 ms.
struct MachineModel {
  double fetch_service_seconds = 1e-6;  ///< the counter is busy per fetch [s]
  double fetch_latency_seconds = 5e-4;  ///< until rank 0 answers [s]
  double start_seconds = 0.05;          ///< start of a rank, MPI included [s]
  double segment_seconds = 5e-3;        ///< writing a segment and its ledger line, main thread [s]
  double segment_period_seconds = 2.0;  ///< units are gathered for this long [s]
  double reduce_seconds = 1e-3;         ///< one level of the reduction tree [s]
};

struct Rehearsal {
  double seconds = 0;         ///< start to end of the evaluations and the reduction [s]
  double busy_seconds = 0;    ///< of all evaluating threads together [s]
  double efficiency = 0;      ///< busy over threads x seconds, 0..1
  double ideal_seconds = 0;   ///< busy over threads: what perfect balance without overhead would take [s]
  double longest_unit = 0;    ///< [s]
  double counter_share = 0;   ///< of the time that the counter is busy, 0..1
  const char* bound = "";     ///< what limits the efficiency, in words
};

/// Runs the distribution for units that take `unit_seconds` each on a thread, given out by their `expected` work as the
/// sweep does (search/work_order.hpp). Both spans have an entry per unit.
Rehearsal rehearse(DryRunContext&, std::span<const double> unit_seconds, std::span<const UnitWork> expected, int threads, const MachineModel&);

}  // namespace tessera
