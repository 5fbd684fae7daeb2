// Exact numbers of legal ids without visiting them. The rules split by what they look at: the mesh (few kinds of
// geometry), the expert mesh (few kinds of expert counts) and the inner digits (few depths), so a space of 1e10
// legal plans is counted in milliseconds. Units are cut with it.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "search/inner_mask.hpp"
#include "tessera/space.hpp"

namespace tessera {

class LegalCount {
 public:
  LegalCount(const Space&, std::uint32_t cluster);
  /// Chooses the batch by its index in the study.
  void set_batch(std::uint32_t batch);
  /// Legal ids of one (architecture, precision, mesh) row.
  std::uint64_t row(std::uint32_t architecture, std::uint32_t precision, std::uint32_t mesh) const;
  std::uint64_t architecture(std::uint32_t architecture) const;

 private:
  struct Pairs {
    std::uint32_t plain = 0, bare = 0;  ///< legal expert meshes; bare: nothing to shard
  };
  void add_mesh_kinds();
  void add_expert_kinds();

  const Space* space_;
  std::uint32_t cluster_;
  std::vector<std::uint32_t> mesh_kind_, expert_kind_, depth_kind_;  ///< by architecture
  std::vector<std::uint32_t> depth_example_;                         ///< an architecture of each depth kind
  std::vector<std::vector<std::uint8_t>> mesh_legal_;                ///< [mesh kind][mesh]
  std::vector<std::vector<Pairs>> pairs_;                            ///< [expert kind][mesh]
  std::vector<std::array<std::uint64_t, 2>> inner_;  ///< [(depth kind, precision, mesh)][nothing to shard]
};

}  // namespace tessera
