#include "model/stage_layout.hpp"

#include <algorithm>

namespace tessera {
namespace {

// Layers per part, before they are told apart by kind.
std::vector<std::int64_t> part_sizes(const Architecture& a, const Stack& s, std::int64_t parts) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), a.layers / parts);
  if (a.layers % parts == 0) return sizes;
  const std::int64_t tail = s.embedding_as_layer ? 1 + 2 * a.mtp_layers : 0;  // head; MTP layer and its head
  const std::int64_t slots = a.layers + (s.embedding_as_layer ? 1 + tail : 0);
  for (std::int64_t i = 0; i < parts; ++i) sizes[i] = slots / parts + (i < slots % parts ? 1 : 0);
  if (!s.embedding_as_layer) return sizes;
  sizes.front() -= 1;
  sizes.back() -= tail;
  while (sizes.back() < 0) {  // more tail than a part holds: its neighbours give way
    ++sizes.back();
    --*std::max_element(sizes.begin(), sizes.end());
  }
  return sizes;
}

}  // namespace

bool can_spread(const Architecture& a, const Stack& s, std::int64_t parts) {
  if (parts < 1) return false;
  if (a.layers % parts == 0) return true;
  if (!s.uneven_stages) return false;
  return s.embedding_as_layer ? a.layers + 2 >= parts && a.layers >= parts - 2 : a.layers >= parts;
}

std::vector<Part> spread_layers(const Architecture& a, const Stack& s, std::int64_t parts) {
  const auto sizes = part_sizes(a, s, parts);
  std::vector<Part> out(sizes.size());
  std::int64_t layer = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].first = i == 0;
    out[i].last = i + 1 == out.size();
    for (std::int64_t k = 0; k < sizes[i]; ++k, ++layer) ++(a.moe_layer(layer) ? out[i].moe : out[i].dense);
  }
  return out;
}

}  // namespace tessera
