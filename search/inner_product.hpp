// Legality of the inner digits below one mesh as the product it is: slices (micro-batch, variant) x ZeRO x recomputation.
// InnerMask spells the same out plan by plan.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "search/legality.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

struct InnerProduct {
  /// ZeRO indices that are legal, and what the rules refuse, for expert meshes of one kind.
  struct Kind {
    std::vector<std::uint8_t> zero;                     ///< by index; 1: legal
    std::size_t first_zero = 0;                         ///< least legal index
    std::uint64_t rows = 0;                             ///< legal (ZeRO, recomputation) pairs
    std::array<std::uint64_t, kReasonCount> refused{};  ///< by reason
    std::array<std::uint32_t, kReasonCount> sample{};   ///< least inner index refused for the reason
  };
  std::vector<std::uint8_t> slice;      ///< [micro-batch * variants + variant]; 1: legal
  std::vector<std::uint32_t> slices;    ///< legal ones by micro-batch
  std::uint64_t all_slices = 0;
  std::size_t first_micro_batch = 0;    ///< least index with a legal slice
  std::vector<std::size_t> first_variant;  ///< of them, by micro-batch; 0 where there is none
  std::vector<std::uint8_t> mode;       ///< by index of recompute; 1: legal
  std::size_t first_mode = 0;
  std::array<Kind, 2> kinds;            ///< [0]: something to shard; [1]: nothing to shard

  /// Precondition: mesh_rule() passed.
  InnerProduct(const InnerAxes&, const Architecture&, const Cluster&, std::int64_t batch, Precision, const Mesh&);
  /// Least legal inner index with this micro-batch. Precondition: there is one.
  std::size_t first(const InnerAxes& x, const Kind& kind, std::size_t micro_batch) const {
    return x.index(kind.first_zero, micro_batch, first_mode, first_variant[micro_batch]);
  }
  const Kind& kind(const Mesh& mesh, const ExpertMesh& expert) const { return kinds[nothing_to_shard(mesh, expert) ? 1 : 0]; }
};

}  // namespace tessera
