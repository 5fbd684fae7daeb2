// Seconds of collectives on a fabric. Rank order: tp fastest, then cp, dp (ep inside), pp slowest; the expert mesh
// of a stage is etp fastest, then ep, then edp. Bytes are per rank. Forms: moe-step-time.md section 2.5 and 3.
#pragma once
#include "tessera/cluster.hpp"

namespace tessera {

/// A group of `size` ranks whose neighbours are `stride` ranks apart.
struct Group {
  double size = 1, stride = 1;
};

/// Ranks of the group inside one innermost domain, >= 1.
double ranks_in_domain(const Fabric&, Group);
/// Does the group leave the innermost domain?
bool leaves_domain(const Fabric&, Group);

/// Ring all-gather or reduce-scatter of `bytes` (the gathered size) over the group [s]: hierarchical; a contiguous
/// group drives the NICs of all its ranks of a node, a strided one one NIC per rank. `messages` collectives.
double ring_seconds(const Fabric&, Group, double bytes, double messages);

/// The bandwidth term alone, for terms that book latency themselves [B/s].
double ring_rate(const Fabric&, Group);

/// One expert all-to-all: every rank sends `bytes` (tokens * width, one copy) to `copies` experts spread over the
/// group. De-duplicated dispatch sends one copy per distinct rank (inside) and per distinct domain (across).
double exchange_seconds(const Fabric&, Group, double bytes, double copies, Dispatcher);

/// One point-to-point hop between pipeline stages of `stage_ranks` ranks, `stages` of them.
double hop_seconds(const Fabric&, double stage_ranks, double stages, double bytes);

}  // namespace tessera
