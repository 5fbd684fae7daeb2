// A study: what is searched, as plain values. io/study_reader.hpp makes one from a study file (TOML) and the
// command line; a program may fill it by hand. Every name is resolved (presets read, grids expanded, guards
// applied), so the search needs no file. check() is the one place that says whether a study makes sense.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/architecture.hpp"
#include "tessera/budget.hpp"
#include "tessera/cluster.hpp"
#include "tessera/law.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Values an axis may take. Order and repetition do not matter: the space sorts them and drops repeats.
template <class T>
struct Axis {
  std::optional<std::vector<T>> values;  ///< nothing: every legal value ("all", or the axis left out)
  std::vector<T> forbidden;              ///< taken out again (--forbid axis=value)
};

/// The plan axes. dp follows from the others. Degrees are numbers of devices.
struct PlanAxes {
  Axis<int> tp, cp, pp, ep;
  Axis<int> etp;             ///< with the axis left out: every divisor that the rules allow
  Axis<int> virtual_stages;  ///< 1: not interleaved; > 1 only with the interleaved schedule
  Axis<int> micro_batch;     ///< [sequences]
  Axis<int> zero;            ///< 0..3
  Axis<Recompute> recompute;
  Axis<Schedule> schedule;   ///< all: the schedules of the cluster's stack
  Axis<Precision> precision; ///< all: the formats of the cluster's device
  Optimizer optimizer = Optimizer::adam;
};

/// Which evaluations are kept on disk.
enum class Record : std::uint8_t { all, feasible, best };
/// exhaustive: every legal plan is costed (sub-spaces that an exact memory bound refuses as a whole excepted,
/// when not everything is recorded). pruned: also skips what an exact bound proves not to be the best plan.
enum class Search : std::uint8_t { exhaustive, pruned };

std::string_view to_string(Record);
std::string_view to_string(Search);
std::optional<Record> record_from(std::string_view);
std::optional<Search> search_from(std::string_view);

struct Study {
  std::string title;
  std::string source;  ///< the study file as given, byte for byte, plus one line per override; for the output
  std::vector<std::string> presets;  ///< "kind name hash" of each preset used; a resumed sweep compares them

  /// One per cluster preset x node count, in the order of the file (presets outermost). devices and memory_cap
  /// [B] are set; `folding` of the study file overrides stack.folding here.
  std::vector<Cluster> clusters;

  std::vector<double> days;  ///< windows [days]; ascending
  GoodputModel goodput;      ///< share of the window that trains; default: constant 1
  BudgetTerms terms;         ///< spare nodes, planned stops, limits for serving; default: none

  std::vector<std::int64_t> batches;  ///< sequences per optimizer step
  std::int64_t sequence = 0;          ///< tokens per sequence

  /// Architectures after the study's guards (top_k < experts, min_sparsity, limits on parameters), no two
  /// alike, and their exact counts, index by index.
  std::vector<Architecture> architectures;
  std::vector<ParameterCount> counts;

  PlanAxes plan;

  Law law;
  TokenBounds token_bounds;  ///< on tokens per active parameter; below: refused for that window, above: cut
  TokenValue token_value;    ///< critical batch and repetition; off by default

  std::int64_t top = 100;  ///< rows kept per envelope (cluster x window)
  Record record = Record::all;
  Search search = Search::exhaustive;
};

/// Throws InputError naming the first thing that cannot be searched: no cluster, window, batch, architecture or
/// axis value, non-positive numbers, counts that do not belong to the architectures.
void check(const Study&);

/// Nodes of a cluster that a scheduler allocates (devices over devices of a node, rounded up).
std::int64_t nodes_of(const Cluster&);

}  // namespace tessera
