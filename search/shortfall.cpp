#include "search/shortfall.hpp"

#include <algorithm>
#include <numeric>

#include "search/inner_mask.hpp"
#include "tessera/error.hpp"
#include "tessera/space.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {
namespace {

/// Does some plan of the architecture fit? Exact bounds only, no step times.
bool fits(const Space& space, std::uint32_t architecture, std::uint32_t batch, std::uint32_t precision) {
  const Study& study = space.study();
  const Architecture& a = study.architectures[architecture];
  const Cluster& cluster = study.clusters[0];
  InnerMask mask(space.inner());
  std::optional<BlockCost> cost;
  Digits at;
  at.batch = batch;
  at.architecture = architecture;
  at.precision = precision;
  for (at.mesh = 0; at.mesh < space.meshes(0).size(); ++at.mesh) {
    const Mesh& mesh = space.meshes(0)[at.mesh];
    if (mesh_rule(a, cluster, mesh, study.sequence) != Reason::none) continue;
    mask.set(a, cluster, study.batches[batch], space.precisions()[precision], mesh);
    for (at.expert = 0; at.expert < space.expert_meshes(0).size(); ++at.expert) {
      const ExpertMesh& expert = space.expert_meshes(0)[at.expert];
      if (expert_rule(a, cluster.stack, mesh, expert) != Reason::none) continue;
      const BlockMask& m = mask.mask(expert);
      if (m.count() == 0) continue;
      if (!cost)
        cost.emplace(a, cluster, space.inner(), study.batches[batch], study.sequence, space.precisions()[precision],
                     study.plan.optimizer);
      cost->select(space.plan(at));
      for (std::size_t z = 0; z < space.inner().zero.size(); ++z)
        if (m.begin_of_zero[z] < m.begin_of_zero[z + 1] && cost->memory_floor(z, m.legal.data(), cluster.memory_cap) <= cluster.memory_cap)
          return true;
    }
  }
  return false;
}

bool something_fits(const Space& space) {
  const Study& study = space.study();
  std::vector<std::uint32_t> order(study.architectures.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {  // small ones are likelier to fit
    return study.counts[x].all_total != study.counts[y].all_total ? study.counts[x].all_total < study.counts[y].all_total : x < y;
  });
  for (const std::uint32_t a : order)
    for (std::uint32_t b = 0; b < study.batches.size(); ++b)
      for (std::uint32_t p = 0; p < space.precisions().size(); ++p)
        if (fits(space, a, b, p)) return true;
  return false;
}

bool fits_on(Study& study, std::int64_t nodes) {
  Cluster& c = study.clusters[0];
  c.devices = nodes * c.fabric.node_devices;
  try {
    return something_fits(Space(study));
  } catch (const InputError&) {
    return false;  // the fixed degrees do not tile this many devices
  }
}

}  // namespace

std::optional<std::int64_t> fitting_nodes(const Study& study, std::uint32_t cluster, std::int64_t most_devices) {
  Study larger = study;
  larger.clusters = {study.clusters[cluster]};
  const Cluster& c = study.clusters[cluster];
  const std::int64_t node = c.fabric.node_devices;
  const bool part_of_a_node = c.devices % node != 0;  // the whole of it is the next size
  for (std::int64_t nodes = nodes_of(c) * (part_of_a_node ? 1 : 2); nodes * node <= most_devices; nodes *= 2)
    if (fits_on(larger, nodes)) return nodes;
  return std::nullopt;
}

std::optional<std::int64_t> fewest_nodes(const Study& study, std::uint32_t cluster, std::int64_t enough, std::int64_t most_tries) {
  Study larger = study;
  larger.clusters = {study.clusters[cluster]};
  // Below the doubling before `enough` lie doublings on which nothing fits, and what the cluster has already.
  const std::int64_t first = std::max(nodes_of(study.clusters[cluster]), enough / 2) + 1;
  if (enough - first > most_tries) return std::nullopt;
  for (std::int64_t nodes = first; nodes < enough; ++nodes)
    if (fits_on(larger, nodes)) return nodes;
  return enough;
}

}  // namespace tessera
