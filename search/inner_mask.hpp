// Legality of all inner digits (zero, micro-batch, recomputation, variant) below one mesh at once. The rules there
// do not look at (ep, etp), except that a mesh without replicas has nothing to shard: so two masks serve every
// expert mesh.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "search/legality.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// Which inner digits of a block are legal and why the others are not.
struct BlockMask {
  std::vector<std::uint8_t> legal;             ///< by inner index; 1: legal
  std::vector<std::uint32_t> index;            ///< inner indices of the legal ones, ascending
  std::vector<std::uint32_t> begin_of_zero;    ///< where each value of the ZeRO axis begins in `index`, and the end
  std::uint64_t count() const { return index.size(); }
  std::array<std::uint64_t, kReasonCount> refused{};  ///< by reason
  std::array<std::uint32_t, kReasonCount> sample{};   ///< least inner index refused for the reason
};

class InnerMask {
 public:
  explicit InnerMask(const InnerAxes&);

  /// Chooses what the masks belong to. Precondition: mesh_rule() passed.
  void set(const Architecture&, const Cluster&, std::int64_t batch, Precision, const Mesh&);
  /// [0]: something to shard; [1]: nothing to shard, filled only where the mesh has one replica.
  const std::array<BlockMask, 2>& masks() const { return masks_; }
  /// The mask of an expert mesh. Precondition: expert_rule() passed.
  const BlockMask& mask(const ExpertMesh& expert) const { return masks_[nothing_to_shard(mesh_, expert) ? 1 : 0]; }

 private:
  void fill(BlockMask&, bool bare, const Architecture&, const Cluster&, Reason precision) const;

  const InnerAxes* axes_;
  Mesh mesh_;
  std::vector<Reason> schedule_;       ///< schedule_rule() by (micro-batch, variant)
  std::array<BlockMask, 2> masks_;     ///< [1]: nothing to shard
};

}  // namespace tessera
