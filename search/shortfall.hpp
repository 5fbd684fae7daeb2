// How many nodes a study would need where nothing fits on those it has.
#pragma once
#include <cstdint>
#include <optional>

#include "tessera/study.hpp"

namespace tessera {

/// Smallest number of nodes, doubling from those of the cluster (first of all the whole of a node of which it is a part), on which some architecture, batch and plan of the
/// study is legal and fits the memory. Nothing: not up to `most_devices`, beyond which the batch or the degrees
/// leave no legal plan or the answer would mean little.
std::optional<std::int64_t> fitting_nodes(const Study&, std::uint32_t cluster,
                                          std::int64_t most_devices = std::int64_t{1} << 20);

/// The fewest nodes between the doubling before `enough` = fitting_nodes() and that on which something fits: more nodes need not
/// fit, since degrees must tile them, so every number is tried. Nothing: there would be more than `most_tries`.
std::optional<std::int64_t> fewest_nodes(const Study&, std::uint32_t cluster, std::int64_t enough, std::int64_t most_tries = 1024);

}  // namespace tessera
