#include "search/inner_product.hpp"

#include <algorithm>

namespace tessera {
namespace {

void refuse(InnerProduct::Kind& kind, Reason reason, std::uint64_t plans, std::size_t first) {
  const auto r = static_cast<std::size_t>(reason);
  const auto index = static_cast<std::uint32_t>(first);
  kind.sample[r] = kind.refused[r] == 0 ? index : std::min(kind.sample[r], index);
  kind.refused[r] += plans;
}

}  // namespace

InnerProduct::InnerProduct(const InnerAxes& x, const Architecture& a, const Cluster& cluster, std::int64_t batch, Precision precision,
                           const Mesh& mesh)
    : slice(x.micro_batch.size() * x.variant.size()), slices(x.micro_batch.size()), first_variant(x.micro_batch.size()) {
  const std::size_t modes = x.recompute.size();
  std::size_t legal_modes = 0, first_odd_mode = modes;
  for (std::size_t r = 0; r < modes; ++r) {
    mode.push_back(recompute_is_canonical(a, x.recompute[r], &x));
    legal_modes += mode[r];
    if (!mode[r]) first_odd_mode = std::min(first_odd_mode, r);
  }
  first_mode = static_cast<std::size_t>(std::find(mode.begin(), mode.end(), 1) - mode.begin());
  const Reason precision_reason = precision_rule(cluster, precision);
  for (int bare = 0; bare < 2; ++bare) {
    Kind& kind = kinds[static_cast<std::size_t>(bare)];
    for (const int zero : x.zero)
      kind.zero.push_back(precision_reason == Reason::none && zero_rule(cluster.stack, mesh.pp, zero) == Reason::none &&
                          zero_is_canonical(bare == 1, zero, &x));
    kind.first_zero = static_cast<std::size_t>(std::find(kind.zero.begin(), kind.zero.end(), 1) - kind.zero.begin());
    kind.rows = legal_modes * static_cast<std::uint64_t>(std::count(kind.zero.begin(), kind.zero.end(), 1));
  }
  for (std::size_t b = 0; b < x.micro_batch.size(); ++b)
    for (std::size_t v = 0; v < x.variant.size(); ++v) {
      const Reason schedule = schedule_rule(a, cluster.stack, mesh, batch, x.micro_batch[b], x.variant[v]);
      const bool canonical = schedule_is_canonical(mesh.pp, x.variant[v]);
      const bool legal = schedule == Reason::none && canonical;
      slice[b * x.variant.size() + v] = legal;
      if (legal && all_slices++ == 0) first_micro_batch = b;
      if (legal && slices[b]++ == 0) first_variant[b] = v;
      for (int bare = 0; bare < 2; ++bare) {
        Kind& kind = kinds[static_cast<std::size_t>(bare)];
        if (schedule != Reason::none) {
          refuse(kind, schedule, x.zero.size() * modes, x.index(0, b, 0, v));
          continue;
        }
        for (std::size_t z = 0; z < x.zero.size(); ++z) {
          Reason reason = zero_rule(cluster.stack, mesh.pp, x.zero[z]);
          if (reason == Reason::none) reason = precision_reason;
          if (reason != Reason::none) {
            refuse(kind, reason, modes, x.index(z, b, 0, v));
          } else if (!legal || !kind.zero[z]) {
            refuse(kind, Reason::not_canonical, modes, x.index(z, b, 0, v));
          } else if (legal_modes < modes) {
            refuse(kind, Reason::not_canonical, modes - legal_modes, x.index(z, b, first_odd_mode, v));
          }
        }
      }
    }
}

}  // namespace tessera
