#include "search/inner_mask.hpp"

namespace tessera {

InnerMask::InnerMask(const InnerAxes& axes) : axes_(&axes), schedule_(axes.micro_batch.size() * axes.variant.size()) {
  for (BlockMask& m : masks_) {
    m.legal.resize(axes.size());
    m.index.reserve(axes.size());
    m.begin_of_zero.resize(axes.zero.size() + 1);
  }
}

void InnerMask::set(const Architecture& a, const Cluster& cluster, std::int64_t batch, Precision precision,
                    const Mesh& mesh) {
  mesh_ = mesh;
  std::size_t i = 0;
  for (const int micro_batch : axes_->micro_batch)
    for (const Variant& variant : axes_->variant)
      schedule_[i++] = schedule_rule(a, cluster.stack, mesh, batch, micro_batch, variant);
  const Reason precision_reason = precision_rule(cluster, precision);
  fill(masks_[0], false, a, cluster, precision_reason);
  // Only a mesh whose dense part has one replica can meet an expert mesh that leaves nothing to shard.
  if (mesh.cp == 1 && mesh.dp == 1) fill(masks_[1], true, a, cluster, precision_reason);
}

void InnerMask::fill(BlockMask& m, bool bare, const Architecture& a, const Cluster& cluster, Reason precision) const {
  m.index.clear();
  m.refused.fill(0);
  const std::size_t variants = axes_->variant.size();
  std::uint32_t i = 0;
  for (std::size_t z = 0; z < axes_->zero.size(); ++z) {
    const int zero = axes_->zero[z];
    const Reason zero_reason = zero_rule(cluster.stack, mesh_.pp, zero);
    const bool zero_canonical = zero_is_canonical(bare, zero, axes_);
    m.begin_of_zero[z] = static_cast<std::uint32_t>(m.index.size());
    for (std::size_t b = 0; b < axes_->micro_batch.size(); ++b)
      for (const Recompute recompute : axes_->recompute) {
        const bool canonical = zero_canonical && recompute_is_canonical(a, recompute, axes_);
        for (std::size_t v = 0; v < variants; ++v, ++i) {
          Reason r = schedule_[b * variants + v];
          if (r == Reason::none) r = zero_reason;
          if (r == Reason::none) r = precision;
          if (r == Reason::none && !(canonical && schedule_is_canonical(mesh_.pp, axes_->variant[v])))
            r = Reason::not_canonical;
          m.legal[i] = r == Reason::none;
          if (r == Reason::none) {
            m.index.push_back(i);
          } else if (m.refused[static_cast<std::size_t>(r)]++ == 0) {
            m.sample[static_cast<std::size_t>(r)] = i;
          }
        }
      }
  }
  m.begin_of_zero.back() = static_cast<std::uint32_t>(m.index.size());
}

}  // namespace tessera
