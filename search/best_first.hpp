// The pruned search: the best plan of one (cluster, batch, architecture), found without costing what exact bounds prove not to
// be it. Lower bounds of the step time are made in three depths: for a mesh and a micro-batch, whatever the expert mesh; for a
// block and a micro-batch, the pipeline alone; then with what a step adds to it. Blocks whose states do not fit are not opened.
// The least bound is always opened next, and when it is above the best time found all that is left is refused at once. So
// nothing is opened that any order would have spared with the same bounds. Where nothing fits, the closest miss is looked for
// among the blocks that were not opened, in the order of their states.
#pragma once
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <optional>
#include <tuple>
#include <utility>
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
  /// Searches all precisions and plans of an architecture (the other digits of `at` are ignored): its best plan, where none fits
  /// its closest miss, kNoId where none is legal. Adds to `counts` everything but the points. Throws RunError if a cost is
  /// not a number.
  BestRow run(const Digits& at, Counts& counts);

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
    std::uint32_t block;       ///< index into blocks_; kWholeMesh: none yet
    std::uint32_t micro_batch;
    bool whole_step;           ///< the bound has what a step adds to its pipeline
  };
  static constexpr std::uint32_t kWholeMesh = ~std::uint32_t{0};
  /// A block that was not opened: its states do not fit.
  struct Heavy {
    double floor;              ///< of its memory with reserve [B]
    std::uint32_t precision, mesh, expert;
    std::uint64_t id;          ///< first of the block
    const InnerProduct* product;
    const InnerProduct::Kind* kind;
  };

  void use_products();
  void open_mesh(std::uint64_t id);
  void search();
  void open_blocks(const Item&);
  void close_step(Item);
  double block_floor(const Item&, const StepFloor&) const;
  void cost_block(const Item&);
  void find_closest_miss();
  void leave(const Item&);
  void select(std::uint32_t precision, std::uint32_t mesh);
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
  static constexpr std::pair<std::uint32_t, std::uint32_t> kNoMesh{~0u, ~0u};
  std::pair<std::uint32_t, std::uint32_t> selected_ = kNoMesh;  ///< precision and mesh
  BlockCost* cost_ = nullptr;                           ///< of the selected mesh
  std::vector<std::optional<InnerProduct>> products_;   ///< by precision and mesh, of product_key_
  std::tuple<std::uint32_t, std::uint32_t, DepthKey> product_key_{};  ///< cluster, batch, depth
  std::vector<Reason> expert_width_;                    ///< by expert mesh, of the architecture
  std::vector<Block> blocks_;
  std::vector<OpenMesh> open_;
  std::vector<Item> heap_;
  std::vector<Heavy> heavy_;
  BestRow best_;
  Counts counts_;
};

}  // namespace tessera
