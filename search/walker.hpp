// The way through a unit: nested loops over the digits of the space. A rule that refuses a mesh or an expert mesh
// skips all ids below at once and counts them; what is left is costed block by block.
#pragma once
#include <array>
#include <memory_resource>
#include <optional>
#include <vector>

#include "search/best_first.hpp"
#include "search/inner_mask.hpp"
#include "tessera/space.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// One per thread. Not thread-safe; results depend on the unit only.
class Walker {
 public:
  explicit Walker(const Space&);
  /// Evaluates a unit of the space, as the study's record and search modes ask. Throws RunError if a cost is not
  /// a number.
  UnitResult run(std::uint64_t unit);

 private:
  /// All meshes of the architectures from unit.first on, or of the part of one that the unit holds.
  void walk(const Unit&);
  /// Whole architectures, pruned.
  void search(const Unit&);
  void begin_architecture();
  void end_architecture();
  void row(std::uint64_t id);
  /// Tables of the current architecture; kept over units, since the next one often goes on with the same.
  void make_cost();
  void block(std::uint64_t id, const BlockMask&);
  /// True: everything below this ZeRO value is above the memory limit, by an exact bound.
  bool memory_refuses(std::uint64_t id, const BlockMask&, std::size_t zero);
  void evaluate(std::uint64_t id, const BlockMask&, std::size_t zero);
  void record(std::uint64_t id, bool fits, const PlanCost&);
  void take_best(std::uint64_t id, const PlanCost&);
  void consider_misfit(std::uint64_t id, const PlanCost&);
  void refuse(Reason, std::uint64_t points, std::uint64_t sample);

  const Space* space_;
  const Study* study_;
  bool bounded_;                        ///< memory bounds may refuse sub-spaces
  InnerMask mask_;
  Digits at_;                           ///< outer digits of the current row
  std::vector<Reason> expert_width_;    ///< expert_width_rule() by expert mesh, of the current architecture
  std::pmr::unsynchronized_pool_resource pool_;  ///< tables of cost_, used again for the next architecture
  std::optional<BlockCost> cost_;       ///< of cost_key_; made when first needed
  std::array<std::uint32_t, 4> cost_key_{};  ///< cluster, batch, architecture, precision
  std::vector<std::uint8_t> live_;      ///< legal and not refused by a bound
  std::vector<PlanCost> out_;
  double cap_ = 0;                      ///< memory limit of the cluster [B]
  BestRow best_;
  std::optional<BestFirst> best_first_; ///< pruned search
  UnitResult result_;
};

}  // namespace tessera
