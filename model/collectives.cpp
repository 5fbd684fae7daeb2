#include "model/collectives.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

const FabricLevel& inner(const Fabric& f) { return f.levels.front(); }
double achieved(const FabricLevel& level) { return level.bandwidth * level.share; }

// Degrees are powers of two, mostly: then the exponent is the logarithm to the last bit, and costs nothing.
double binary_logarithm(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5 ? exponent - 1 : std::log2(x);
}

}  // namespace

double ranks_in_domain(const Fabric& f, Group g) {
  return std::max(1.0, std::min(g.size, std::floor(inner(f).size / std::max(1.0, g.stride))));
}

bool leaves_domain(const Fabric& f, Group g) { return g.size > ranks_in_domain(f, g) && f.levels.size() > 1; }

double ring_rate(const Fabric& f, Group g) {
  double rate = achieved(inner(f));
  if (!leaves_domain(f, g)) return rate;
  const double members = ranks_in_domain(f, g);
  for (std::size_t i = 1; i < f.levels.size(); ++i) {
    const FabricLevel& level = f.levels[i];
    rate = std::min(rate, members * achieved(level) / level.oversubscription);
    if (g.size * g.stride <= level.size) break;
  }
  return rate;
}

double ring_seconds(const Fabric& f, Group g, double bytes, double messages) {
  if (g.size <= 1) return 0;
  double latency = inner(f).latency;
  if (leaves_domain(f, g)) latency = f.levels[1].latency * (1 + binary_logarithm(g.size / ranks_in_domain(f, g)));
  return bytes * (g.size - 1) / g.size / ring_rate(f, g) + messages * latency;
}

double exchange_seconds(const Fabric& f, Group g, double bytes, double copies, Dispatcher dispatcher) {
  if (g.size <= 1) return 0;
  const double members = ranks_in_domain(f, g);
  const double domains = std::ceil(g.size / members);
  const bool across = domains > 1 && f.levels.size() > 1;
  double inside_bytes, across_bytes = 0, peers;
  if (dispatcher == Dispatcher::deduplicated) {
    inside_bytes = bytes * g.size * (1 - std::pow(1 - 1 / g.size, copies)) * (g.size - 1) / g.size;
    if (across) across_bytes = bytes * domains * (1 - std::pow(1 - 1 / domains, copies)) * (domains - 1) / domains;
    peers = domains;
  } else {
    inside_bytes = bytes * copies * ((across ? members : g.size) - 1) / g.size;
    if (across) across_bytes = bytes * copies * (g.size - members) / g.size;
    peers = g.size - members;
  }
  double seconds = inner(f).latency + inside_bytes / achieved(inner(f));
  for (std::size_t i = 1; across && i < f.levels.size(); ++i) {
    const FabricLevel& level = f.levels[i];
    seconds = std::max(seconds, level.latency + level.peer_latency * peers +
                                    across_bytes * level.oversubscription / achieved(level));
    if (g.size * g.stride <= level.size) break;
  }
  return seconds;
}

double hop_seconds(const Fabric& f, double stage_ranks, double stages, double bytes) {
  const FabricLevel* level = &inner(f);
  if (stage_ranks * stages > level->size && f.levels.size() > 1) level = &f.levels[1];
  return bytes / achieved(*level) + inner(f).latency;
}

}  // namespace tessera
