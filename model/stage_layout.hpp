// How layers are spread over pipeline parts. A part is a stage (pp parts) or, interleaved, a chunk (pp * v parts, in
// path order; part s lies on device s % pp).
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"

namespace tessera {

struct Part {
  std::int64_t dense = 0, moe = 0;  ///< layers of each kind
  bool first = false, last = false;
  bool same_layers(const Part& o) const { return dense == o.dense && moe == o.moe && first == o.first && last == o.last; }
};

/// Can the layers be spread over `parts` parts? Equal parts when the layers divide; else only where the stack allows
/// uneven stages, with at least one layer (or the embedding or head, where they count as layers) in each.
bool can_spread(const Architecture&, const Stack&, std::int64_t parts);

/// The layers of each part. Precondition: can_spread(). Equal; or embedding, head and each MTP module (with its own
/// head) counted as layers, the remainder going to the first parts; or plain remainder to the first parts.
/// 46 layers on 4: 12 12 11 11. 6 layers on 4 with embedding and head as layers: 1 2 2 1.
std::vector<Part> spread_layers(const Architecture&, const Stack&, std::int64_t parts);

}  // namespace tessera
