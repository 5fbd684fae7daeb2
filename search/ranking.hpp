// From the best plans to the answer: per envelope (cluster and window) the architectures by predicted loss.
#pragma once
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// Fills top and envelopes of the result from its best rows. An architecture's plan is the one of most effective
/// tokens over the batches (without a batch penalty: of most deliverable FLOPs). Order: loss, then id.
void rank_envelopes(const Study&, const Space&, SweepResult&);

}  // namespace tessera
