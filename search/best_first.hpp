// The pruned search: the best plan of one (cluster, batch, architecture), found without costing what exact bounds prove not to
// be it. Lower bounds of the step time are made in three depths: for a mesh and a micro-batch, whatever the expert mesh; for a
// block and a micro-batch, the pipeline alone; then with what a step adds to it. Blocks whose states do not fit are not opened. The least bound is always opened next, and when it is above the best time found all that is
// left is refused at once. So nothing is opened that any order would have spared with the same bounds.
#pragma once
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <optional>
#include <tuple>
#include <vector>

#include "search/inner_product.hpp"
#include "tessera/space.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// One per thread; what a call gives depends on its arguments only.
class BestFirst {
 public:
  explicit BestFirst(const Space&);
  /// Searches all precisions and plans of an architecture (the other digits of `at` are ignored). True: the best plan is in
  /// `best`, and `counts` has everything but the points. False: no plan fits, and both are unchanged. Throws RunError if a
  /// cost is not a number.
  bool run(const Digits& at, BestRow& best, Counts& counts);

 private:
  struct Block {
    std::uint32_t expert;
    std::uint64_t id;     ///< first of the block
    const InnerProduct::Kind* kind;
    std::optional<StepFloor> floor;   ///< once asked for
  };
  /// A mesh with its expert meshes that are legal and whose states fit: blocks_[first .. last).
  struct OpenMesh {
    std::uint32_t precision, mesh;
    std::size_t first, last;
    const InnerProduct* product;
  };
  /// What waits: a micro-batch of a mesh, or of one of its blocks.
  struct Item {
    double floor;              ///< [s]
    std::uint64_t id;          ///< of the mesh's first block, or of the block: makes the order total
    std::uint32_t open;        ///< index into open_
    std::uint32_t micro_batch;
    std::size_t block;         ///< index into blocks_; kWholeMesh: none yet
    bool whole_step;           ///< the bound has what a step adds to its pipeline
  };
  static constexpr std::size_t kWholeMesh = ~std::size_t{0};

  void use_products();
  void open_mesh(std::uint64_t id);
  void search();
  void open_blocks(const Item&);
  void close_step(Item);
  double block_floor(const Item&, const StepFloor&) const;
  void cost_block(const Item&);
  void leave(const Item&);
  void select(const OpenMesh&);
  /// Queues it, or leaves it where its bound is above the best.
  void push(const Item&);
  void take(std::uint64_t id, const PlanCost&);
  void refuse(Reason, std::uint64_t points, std::uint64_t sample);
  double limit() const;

  const Space* space_;
  const Study* study_;
  Digits at_;
  std::pmr::unsynchronized_pool_resource pool_;         ///< tables of costs_, used again for the next architecture
  std::vector<BlockCost> costs_;                        ///< by precision
  BlockCost* cost_ = nullptr;                           ///< of the selected mesh
  std::vector<std::optional<InnerProduct>> products_;   ///< by precision and mesh, of product_key_
  std::tuple<std::uint32_t, std::uint32_t, DepthKey> product_key_{};  ///< cluster, batch, depth
  std::vector<Reason> expert_width_;                    ///< by expert mesh, of the architecture
  std::vector<Block> blocks_;
  std::vector<OpenMesh> open_;
  std::vector<Item> heap_;
  BestRow best_;
  Counts counts_;
};

}  // namespace tessera
