// Which plans are legal. Each rule is one small function of what it looks at, so that the walk can test it once
// for a whole sub-space; legality() tests them all, in the order of Reason, for one plan.
// Sources: memory-and-space notes B.1 and B.3 (rules, canonical form) and published failures of other tools.
#pragma once
#include <cstdint>
#include <tuple>

#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"
#include "tessera/space.hpp"

namespace tessera {

/// Why a plan is refused; Reason::none: it is legal. `axes`: the values a plan may take besides; a plan that is
/// the same as another one of them is not_canonical. Without it only what is never canonical is refused.
Reason legality(const Architecture&, const Cluster&, const Plan&, std::int64_t sequence,
                const InnerAxes* axes = nullptr);

// The rules by what they look at. Each returns the first reason in the order of Reason, or none.

/// devices .. pp_layers: architecture and (pp, cp, tp, dp).
Reason mesh_rule(const Architecture&, const Cluster&, const Mesh&, std::int64_t sequence);
/// ep_experts .. dense_expert_axis.
Reason expert_rule(const Architecture&, const Stack&, const Mesh&, const ExpertMesh&);
/// ep_experts and etp_ffn alone: what of expert_rule() does not look at the mesh.
Reason expert_width_rule(const Architecture&, const ExpertMesh&);
/// batch .. schedule_stack. `batch` in sequences.
Reason schedule_rule(const Architecture&, const Stack&, const Mesh&, std::int64_t batch, int micro_batch,
                     const Variant&);
/// zero_stack.
Reason zero_rule(const Stack&, int pp, int zero);
/// precision_device.
Reason precision_rule(const Cluster&, Precision);

/// What schedule_rule() and the canonical forms read of an architecture: layers, MTP layers, is it MoE.
using DepthKey = std::tuple<std::int64_t, std::int64_t, bool>;
inline DepthKey depth_key(const Architecture& a) { return {a.layers, a.mtp_layers, a.is_moe()}; }

/// Is there nothing that a ZeRO stage could shard: one replica of the dense part and of the experts?
bool nothing_to_shard(const Mesh&, const ExpertMesh&);
/// One stage has no pipeline: every schedule but 1F1B is the same plan as 1F1B.
bool schedule_is_canonical(int pp, const Variant&);
/// Without anything to shard every ZeRO stage is the same plan: the least on the axis stands for them.
bool zero_is_canonical(bool nothing_to_shard, int zero, const InnerAxes*);
/// Without experts selective recomputation saves what none does: none stands for it where it is on the axis.
bool recompute_is_canonical(const Architecture&, Recompute, const InnerAxes*);

}  // namespace tessera
