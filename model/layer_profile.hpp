// Seconds of the pieces of a layer on one rank and micro-batch, and how they make up a layer. A piece depends on few
// digits of a plan, so a search keeps a table of each: attention and dense FFN (tp, cp, micro-batch), experts
// (tp, cp, ep, etp, micro-batch).
#pragma once
#include <cstdint>

#include "model/seconds.hpp"
#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// What every piece looks at.
struct Setting {
  const Architecture* architecture;
  const Cluster* cluster;
  std::int64_t sequence;
  Precision precision;
};

/// The digits a piece depends on.
struct Shard {
  int tp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1;
};

/// A piece of a layer with what recomputation and overlap need to know of it.
struct Piece {
  Work work;                  ///< without recomputation, expert exchange and host
  double exchange = 0;        ///< the two all-to-alls of one direction [s] (experts)
  double last_gemm = 0;       ///< forward of the last GEMM [s]: an early stop does not recompute it
  double gemm_forward = 0;    ///< forward GEMMs [s]
  double core_attention = 0;  ///< forward of the scores [s]
  double latent_up = 0;       ///< forward of the MLA up-projections [s]
  double norms = 0;           ///< forward of the piece's norm [s]
  double activation = 0;      ///< forward of the routed experts' activation [s]
  double shared_forward = 0, shared_backward = 0;  ///< GEMMs of the shared expert [s]
  double local_experts = 0;   ///< experts on the rank (host launches)
};

/// Attention without its core: projections, a norm, a residual. Like the FFN pieces that follow (of which the routed experts
/// look at ep and etp besides) it depends on tp and the tokens on a rank alone.
Piece projection_piece(const Setting&, const Shard&);
Piece attention_piece(const Setting&, const Shard&, const Piece& projections);
Piece dense_ffn_piece(const Setting&, const Shard&);
/// Of a MoE layer's FFN what no expert mesh changes: the shared expert, one norm, one residual.
Piece beside_experts_piece(const Setting&, const Shard&);
/// The FFN of a MoE layer: routed experts and what is beside them.
Piece expert_piece(const Setting&, const Shard&, const Piece& beside);
/// For bounds: no expert mesh takes less in any term. Without exchange, groups and broken tiles; ep and etp are ignored.
Piece least_expert_piece(const Setting&, const Shard&, const Piece& beside);

/// Seconds of the forward and of the backward.
struct Directions {
  double forward = 0, backward = 0;
};
/// What of the expert exchange nothing hides. `overlapped`: the schedule hides it (DualPipe).
Directions exposed_exchange(const Stack&, const Piece& ffn, bool overlapped);
/// For bounds: no recomputation mode of a layer takes less, in its forward or in both directions.
Directions layer_floor(const Setting&, const Piece& attention, const Piece& ffn, bool moe, const Directions& exchange);

/// A whole layer: pieces, exposed exchange, recomputation, host (max(GPU, host) + serial share * min for MoE
/// layers; moe-step-time.md section 3). `overlapped`: the schedule hides the expert exchange (DualPipe).
Work layer_work(const Setting&, const Piece& attention, const Piece& ffn, bool moe, unsigned modules, bool overlapped);

/// Embedding (first stage) and final norm, head and loss (last stage, once per output).
Work embedding_work(const Setting&, const Shard&);
Work head_work(const Setting&, const Shard&);

/// Time the device idles per micro-batch and stage because the stack synchronises at every stage boundary while
/// its experts are spread (moe-step-time.md section 4); added to the backward.
double stage_coupling(const Setting&, const Shard&, int pp, const Work& moe_layer);

/// Tokens of a micro-batch on a rank, b*s/cp, and under sequence parallelism.
double local_tokens(const Setting&, const Shard&);
double split_tokens(const Setting&, const Shard&);

/// Vocabulary padded to a multiple of 128*tp, per rank.
double padded_vocabulary(const Architecture&, int tp);

}  // namespace tessera
