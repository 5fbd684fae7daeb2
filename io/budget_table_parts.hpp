// Pieces of the answer to a budget, shared by the files of the budget table only.
#pragma once
#include "io/budget_table.hpp"

namespace tessera::budgets {

/// Where a number of nodes lies among the swept sizes of a cluster.
struct Place {
  std::size_t low = 0, high = 0;  ///< indices into BudgetTable::clusters; equal: swept itself
  double share = 0;               ///< 0 at low, 1 at high, linear in log(nodes)
};
/// Throws InputError: unknown or missing cluster, nodes outside those swept.
Place find_place(const BudgetTable&, const std::string& cluster, std::int64_t nodes);

/// The order of BudgetTable::candidates.
inline bool before(const TableCandidate& a, const TableCandidate& b) {
  return a.cluster != b.cluster             ? a.cluster < b.cluster
         : a.architecture != b.architecture ? a.architecture < b.architecture
                                            : a.plan.batch < b.plan.batch;
}

/// Best plan per architecture x batch at a place, before any window.
std::vector<TableCandidate> candidates_at(const BudgetTable&, const Place&, double devices);

/// Fills candidates and the counts of what is left out. Sorted by predicted loss, then architecture.
void rank_candidates(const BudgetTable&, const std::vector<TableCandidate>&, const TokenBounds&,
                     BudgetAnswer&);

/// Fills the certainty of an answer whose candidates are ranked. `uncapped` is the same answer without the
/// upper bound on tokens; nullptr where there is none.
void add_certainty(const BudgetTable&, const BudgetAnswer* uncapped, BudgetAnswer&);
/// What the near ties share, axis by axis; from the verdicts.
void add_tied_ranges(const BudgetTable&, BudgetAnswer&);

/// The table without clusters, architectures and candidates: law, bounds, draws, ...
nlohmann::ordered_json settings_to_json(const BudgetTable&);
/// The inverse. Throws InputError, std::invalid_argument or an exception of the JSON library.
void read_settings(const nlohmann::json&, const std::string& name, BudgetTable&);
/// Throws std::invalid_argument: a cluster without devices, ..., a candidate of no architecture, none at all.
void check_parts(const BudgetTable&);
/// InputError "NAME is no table of tessera (why) ...".
[[noreturn]] void not_a_table(const std::string& name, const std::string& why);

}  // namespace tessera::budgets
