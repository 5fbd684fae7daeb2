// What the sweep needs of the machine it runs on. Three implementations: one process (serial_context.hpp), MPI
// (mpi_context.hpp) and a dry run that pretends to be N ranks (dry_run_context.hpp). The algorithm is the same.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tessera {

using Bytes = std::vector<std::uint8_t>;

/// Gives out units of work; each unit is given to exactly one rank.
class WorkSource {
 public:
  virtual ~WorkSource() = default;
  /// The next unit that nobody has, or nothing when all are given out. Called from a rank's main thread.
  virtual std::optional<std::uint64_t> next() = 0;
  /// From now on nobody gets a unit (a signal, a time limit, a failure). Idempotent.
  virtual void close() = 0;
  /// Units given out so far to any rank, as far as this rank knows.
  virtual std::uint64_t taken() const = 0;
};

class Context {
 public:
  virtual ~Context() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Ranks that share this rank's processors, itself included: they divide its affinity mask.
  virtual int ranks_on_my_cores() const = 0;

  // Collective calls: every rank makes them in the same order.
  /// A source of the given units (the same list on every rank).
  virtual std::unique_ptr<WorkSource> share(std::vector<std::uint64_t> units) = 0;
  virtual void broadcast(Bytes&, int root) = 0;
  virtual std::int64_t largest(std::int64_t) = 0;
  /// Brings everything to rank 0 along a tree: `pack` gives a rank's state, `merge` takes in another's.
  virtual void reduce(const std::function<Bytes()>& pack, const std::function<void(std::span<const std::uint8_t>)>& merge) = 0;
  /// Waits for all ranks without using a processor.
  virtual void wait_for_all() = 0;

  /// Lets requests of other ranks make progress: to be called about every millisecond.
  virtual void poll() = 0;
};

}  // namespace tessera
