#include "search/legal_count.hpp"

#include <map>
#include <tuple>

namespace tessera {
namespace {

/// What mesh_rule() reads of an architecture.
auto mesh_key(const Architecture& a) {
  const bool dense_part = !a.is_moe() || a.moe_layer_count() < a.layers;
  return std::make_tuple(a.layers, a.mtp_layers, a.heads, a.kv_heads, a.attention, dense_part ? a.dense_ffn : 0,
                         a.shared_ffn);
}

/// Number of the key, a new one if it was not seen.
template <class Map, class Key>
std::uint32_t kind_of(Map& seen, const Key& key) {
  return seen.try_emplace(key, static_cast<std::uint32_t>(seen.size())).first->second;
}

}  // namespace

LegalCount::LegalCount(const Space& space, std::uint32_t cluster) : space_(&space), cluster_(cluster) {
  const auto& architectures = space.study().architectures;
  std::map<decltype(depth_key(architectures[0])), std::uint32_t> depths;
  for (std::uint32_t i = 0; i < architectures.size(); ++i) {
    depth_kind_.push_back(kind_of(depths, depth_key(architectures[i])));
    if (depths.size() > depth_example_.size()) depth_example_.push_back(i);
  }
  add_mesh_kinds();
  add_expert_kinds();
}

void LegalCount::add_mesh_kinds() {
  const Study& study = space_->study();
  std::map<decltype(mesh_key(study.architectures[0])), std::uint32_t> kinds;
  for (const Architecture& a : study.architectures) {
    mesh_kind_.push_back(kind_of(kinds, mesh_key(a)));
    if (kinds.size() == mesh_legal_.size()) continue;
    auto& legal = mesh_legal_.emplace_back();
    for (const Mesh& mesh : space_->meshes(cluster_))
      legal.push_back(mesh_rule(a, study.clusters[cluster_], mesh, study.sequence) == Reason::none);
  }
}

void LegalCount::add_expert_kinds() {
  const Study& study = space_->study();
  const Stack& stack = study.clusters[cluster_].stack;
  const auto& experts = space_->expert_meshes(cluster_);
  std::map<std::pair<bool, std::vector<bool>>, std::uint32_t> kinds;
  for (const Architecture& a : study.architectures) {
    std::vector<bool> fits(experts.size());
    for (std::size_t e = 0; e < experts.size(); ++e) fits[e] = expert_width_rule(a, experts[e]) == Reason::none;
    expert_kind_.push_back(kind_of(kinds, std::make_pair(a.is_moe(), fits)));
    if (kinds.size() == pairs_.size()) continue;
    auto& of_mesh = pairs_.emplace_back();
    for (const Mesh& mesh : space_->meshes(cluster_)) {
      Pairs& p = of_mesh.emplace_back();
      for (std::size_t e = 0; e < experts.size(); ++e) {
        if (!fits[e] || expert_rule(a, stack, mesh, experts[e]) != Reason::none) continue;
        ++(nothing_to_shard(mesh, experts[e]) ? p.bare : p.plain);
      }
    }
  }
}

void LegalCount::set_batch(std::uint32_t batch) {
  const Study& study = space_->study();
  const auto& precisions = space_->precisions();
  const auto& meshes = space_->meshes(cluster_);
  InnerMask mask(space_->inner());
  inner_.clear();
  for (const std::uint32_t example : depth_example_)
    for (const Precision precision : precisions)
      for (const Mesh& mesh : meshes) {
        mask.set(study.architectures[example], study.clusters[cluster_], study.batches[batch], precision, mesh);
        inner_.push_back({mask.masks()[0].count(), mask.masks()[1].count()});
      }
}

std::uint64_t LegalCount::row(std::uint32_t architecture, std::uint32_t precision, std::uint32_t mesh) const {
  if (!mesh_legal_[mesh_kind_[architecture]][mesh]) return 0;
  const Pairs& p = pairs_[expert_kind_[architecture]][mesh];
  const std::size_t precisions = space_->precisions().size(), meshes = space_->meshes(cluster_).size();
  const auto& inner = inner_[(depth_kind_[architecture] * precisions + precision) * meshes + mesh];
  return p.plain * inner[0] + p.bare * inner[1];
}

std::uint64_t LegalCount::architecture(std::uint32_t architecture) const {
  std::uint64_t sum = 0;
  for (std::uint32_t p = 0; p < space_->precisions().size(); ++p)
    for (std::uint32_t m = 0; m < space_->meshes(cluster_).size(); ++m) sum += row(architecture, p, m);
  return sum;
}

}  // namespace tessera
