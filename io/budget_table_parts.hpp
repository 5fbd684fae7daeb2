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

/// Best plan per architecture x batch at a place, before any window.
std::vector<TableCandidate> candidates_at(const BudgetTable&, const Place&, double devices);

/// Fills candidates and the counts of what is left out. Sorted by predicted loss, then architecture.
void rank_candidates(const BudgetTable&, const std::vector<TableCandidate>&, const TokenBounds&,
                     BudgetAnswer&);

/// Fills the certainty of an answer whose candidates are ranked. `uncapped` is the same answer without the
/// upper bound on tokens; nullptr where there is none.
void add_certainty(const BudgetTable&, const BudgetAnswer* uncapped, BudgetAnswer&);

}  // namespace tessera::budgets
