// The best architecture of every split factor and of every band of sparsity, at one budget.
#include <algorithm>
#include <map>

#include "io/budget_table.hpp"

namespace tessera {
namespace {

/// Best candidate of each class, classes ascending; P(best) of a class is the sum over its members.
template <class Key>
std::vector<BudgetClass> classes(const BudgetAnswer& a, const Key& key) {
  std::map<double, BudgetClass> best;
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    const double low = key(a.candidates[i]);
    BudgetClass& entry = best.try_emplace(low, BudgetClass{low, low, i, 0})
                             .first->second;  // ascending loss: the first is the best
    if (a.has_certainty && i < a.considered) entry.probability += a.decision.verdicts[i].best;
  }
  std::vector<BudgetClass> out;
  for (const auto& [low, entry] : best) out.push_back(entry);
  return out;
}

}  // namespace

std::vector<BudgetClass> best_by_split(const BudgetTable& t, const BudgetAnswer& a) {
  return classes(a, [&](const BudgetCandidate& c) { return t.architectures[c.architecture].split; });
}

std::vector<BudgetClass> best_by_sparsity(const BudgetTable& t, const BudgetAnswer& a) {
  const auto& edges = t.settings.sparsity_bands;
  const auto above = [&](double s) { return std::upper_bound(edges.begin(), edges.end(), s); };
  auto out = classes(a, [&](const BudgetCandidate& c) {
    const auto edge = above(t.counts[c.architecture].sparsity());
    return edge == edges.begin() ? edges.front() : *std::prev(edge);  // below the first edge: the first band
  });
  for (BudgetClass& c : out) c.high = above(c.low) == edges.end() ? edges.back() : *above(c.low);
  return out;
}

}  // namespace tessera
